"""What people may import: written down in tests/surface.txt, so that a change of it is seen."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

WRITTEN = {
    package: names.split()
    for package, _, names in (
        line.partition(":")
        for line in (Path(__file__).parent / "surface.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}


@pytest.mark.parametrize("package", WRITTEN)
def test_a_package_exports_what_is_written_down(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == sorted(WRITTEN[package]), "change tests/surface.txt, and tell it in CHANGELOG.md"
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


@pytest.mark.parametrize("package", WRITTEN)
def test_all_that_is_exported_says_what_it_is(package: str) -> None:
    module = import_module(package)
    found = {name: getattr(module, name) for name in module.__all__}
    silent = [name for name, one in found.items() if callable(one) and not inspect.getdoc(one)]
    assert silent == []


@pytest.mark.parametrize("package", WRITTEN)
def test_functions_that_are_exported_are_typed(package: str) -> None:
    module = import_module(package)
    functions = [one for name in module.__all__ if inspect.isfunction(one := getattr(module, name))]
    untyped = [
        f"{function.__name__}({parameter.name})"
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation is inspect.Parameter.empty
    ]
    assert untyped == []
