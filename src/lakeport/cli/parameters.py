"""Adjustments to the parameters of Typer's commands: how they are shown, and how their values are converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

HELP_OPTIONS = ["-h", "--help"]

_Parameter = TyperOption | TyperArgument


def adjust_parameters(group: TyperGroup) -> None:
    for parameter in _parameters(group):
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""  # flags take no value
        parameter.process_value = partial(_process, parameter, parameter.process_value)  # type: ignore[method-assign]


def _parameters(group: TyperGroup) -> Iterator[_Parameter]:
    for command in (group, *group.commands.values()):
        if isinstance(command, TyperGroup) and command is not group:
            yield from _parameters(command)
            continue
        for parameter in command.get_params(typer.Context(command, help_option_names=HELP_OPTIONS)):
            if isinstance(parameter, _Parameter):
                yield parameter


def _process(parameter: _Parameter, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """Convert a value as `process` does, which imports pydantic: 0.1 s, even if there is nothing to convert."""
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None
    elif not _has_type(value, parameter.type_descriptor.annotation):
        return process(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _has_type(value: Any, annotation: Any) -> bool:
    if get_origin(annotation) is list:
        return type(value) is list and bool(value) and all(_has_type(each, *get_args(annotation)) for each in value)
    return type(value) is annotation
