"""Curves visit every cell once, and close cells one after another."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from lakeport.kernel.clustering import hilbert, interleave

Curve = Callable[..., np.ndarray]


def cells(columns: int, bits: int) -> list[np.ndarray]:
    grid = np.array(list(product(range(1 << bits), repeat=columns)), np.uint64)
    return [grid[:, column].copy() for column in range(columns)]


@pytest.mark.parametrize("curve", [hilbert, interleave])
@pytest.mark.parametrize(("columns", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2), (2, 1)])
def test_every_cell_has_a_place_of_its_own(curve: Curve, columns: int, bits: int) -> None:
    found = curve(cells(columns, bits), bits)
    assert sorted(found.tolist()) == list(range(1 << columns * bits))


@pytest.mark.parametrize(("columns", "bits"), [(1, 5), (2, 5), (3, 3), (4, 2)])
def test_the_hilbert_curve_moves_one_step_at_a_time(columns: int, bits: int) -> None:
    grid = cells(columns, bits)
    path = np.stack(grid, axis=1)[np.argsort(hilbert(grid, bits))].astype(int)
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


def test_z_order_alternates_between_the_bits_of_the_columns() -> None:
    a, b = (np.array([value], np.uint64) for value in (0b101, 0b011))
    assert interleave([a, b], 3).tolist() == [0b10_01_11]


def test_the_columns_given_stay_as_they_are() -> None:
    grid = cells(2, 3)
    before = [column.copy() for column in grid]
    hilbert(grid, 3)
    assert all((column == known).all() for column, known in zip(grid, before, strict=True))
