"""Values are made once and served while they are fresh."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pytest

from lakeport.freshness import Fresh, Renewed, RenewedValues, renew_at


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_value_is_made_anew_only_when_it_is_no_longer_fresh(clock: Clock) -> None:
    values: RenewedValues[int] = RenewedValues(clock)
    numbers = count()
    got = []
    for moment in [0, 9.9, 10, 19]:
        clock.time = moment
        got.append(values.of("key").current(lambda: Fresh(next(numbers), clock() + 10)))
    assert got == [0, 0, 1, 1]


def test_keys_have_values_of_their_own(clock: Clock) -> None:
    values: RenewedValues[str] = RenewedValues(clock)
    assert [values.of(key).current(lambda key=key: Fresh(key * 2, 1)) for key in "aba"] == ["aa", "bb", "aa"]


def test_of_many_threads_that_ask_at_once_one_makes_the_value(clock: Clock) -> None:
    values: RenewedValues[int] = RenewedValues(clock)
    numbers, start = count(), Barrier(16)

    def slowly() -> Fresh[int]:
        time.sleep(0.05)
        return Fresh(next(numbers), 1)

    def ask(_: int) -> int:
        start.wait()
        return values.of("key").current(slowly)

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(16))) == {0}
    assert next(numbers) == 1


def test_a_failure_is_told_to_all_who_waited_and_is_not_kept(clock: Clock) -> None:
    values: RenewedValues[int] = RenewedValues(clock)
    start, attempts = Barrier(8), count()

    def fail() -> Fresh[int]:
        time.sleep(0.05)
        raise OSError(f"attempt {next(attempts)}")

    def ask(_: int) -> str:
        start.wait()
        with pytest.raises(OSError, match="attempt") as told:
            values.of("key").current(fail)
        return str(told.value)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"attempt 0"}
    assert values.of("key").current(lambda: Fresh(5, 1)) == 5


def test_keys_beyond_the_capacity_are_forgotten_oldest_use_first(clock: Clock) -> None:
    values: RenewedValues[int] = RenewedValues(clock, capacity=2)
    numbers = count()

    def ask(key: str) -> int:
        return values.of(key).current(lambda: Fresh(next(numbers), 1))

    assert [ask(key) for key in "abacab"] == [0, 1, 0, 2, 0, 3]


@pytest.mark.parametrize(
    ("expires", "part", "moment"),
    [
        (200, 0.2, 180),
        (36_100, 0.2, 35_800),
        (200, 0.5, 150),
        (100, 0.2, math.inf),
        (-(10**12), 0.2, math.inf),
        (None, 0.2, math.inf),
    ],
)
def test_a_value_is_renewed_some_time_before_it_expires(expires: float | None, part: float, moment: float) -> None:
    assert renew_at(100, expires, part) == moment


def test_a_rejected_value_is_replaced_once(clock: Clock) -> None:
    numbers = count()
    value: Renewed[int] = Renewed(clock)

    def make() -> Fresh[int]:
        return Fresh(next(numbers))

    assert [value.current(make), value.instead_of(0, make), value.instead_of(0, make), value.current(make)] == [
        0,
        1,
        1,
        1,
    ]


def test_a_value_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Fresh("secret"))
