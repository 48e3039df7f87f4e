"""Parameters of commands have the values that Typer would give them."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from lakeport.cli.parameters import adjust_parameters


class Color(StrEnum):
    RED = "red"


def application(received: list[dict[str, Any]]) -> TyperGroup:
    """An application with a parameter of each kind, which notes their values."""

    def work(
        target: str,
        others: Annotated[list[str] | None, typer.Argument()] = None,
        name: str | None = None,
        limit: int = 10,
        share: Annotated[float, typer.Option(min=0, max=1)] = 0.5,
        option: list[str] | None = None,
        number: list[int] | None = None,
        color: Color | None = None,
        access: Literal["url", "dir"] | None = None,
        shout: Annotated[str, typer.Option(callback=lambda value: f"{value}!")] = "ho",
        quiet: Annotated[bool, typer.Option("--quiet")] = False,
    ) -> None:
        received.append(dict(locals(), received=None))

    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    app.command()(work)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def outcome(arguments: list[str], *, adjusted: bool) -> object:
    received: list[dict[str, Any]] = []
    group = application(received)
    if adjusted:
        adjust_parameters(group)
    try:
        group(["work", *arguments], standalone_mode=False)
    except typer.TyperException as error:
        return error.format_message()
    return received


@pytest.mark.parametrize(
    "arguments",
    [
        ["t"],
        ["t", "u", "v", "--name", "n", "--limit", "3", "--share", "1", "--option", "a=b", "--option", "", "--quiet"],
        ["t", "--number", "1", "--number", "2", "--color", "red", "--access", "dir", "--shout", "hey"],
        [],
        ["t", "--limit", "many"],
        ["t", "--share", "2"],
        ["t", "--number", "x"],
        ["t", "--color", "blue"],
        ["t", "--access", "none"],
        [""],
    ],
)
def test_values_and_errors_are_those_of_typer(arguments: list[str]) -> None:
    expected = outcome(arguments, adjusted=False)
    assert outcome(arguments, adjusted=True) == expected
    assert expected
