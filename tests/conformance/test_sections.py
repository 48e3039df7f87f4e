"""The suite itself: every section of the protocol has a rule here, and every rule has a section."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import conformance
from tests.conformance.sections import LATER, SECTIONS, WITHOUT_RULES
from tests.conformance.target import SharedTable, Target, load_target
from tests.conftest import require_shared


def rules() -> Iterator[tuple[str, set[str]]]:
    """The tests of the other modules, with the sections that their markers name."""
    for found in pkgutil.iter_modules(conformance.__path__):
        if found.name.startswith("test_") and found.name != "test_sections":
            module = importlib.import_module(f"{conformance.__name__}.{found.name}")
            general = sections_of(module)
            for name, test in vars(module).items():
                if name.startswith("test_"):
                    yield f"{found.name}::{name}", sections_of(test) or general


def sections_of(marked: Any) -> set[str]:
    marks = getattr(marked, "pytestmark", [])
    marks = marks if isinstance(marks, list) else [marks]
    return {name for mark in marks if mark.name == "section" for name in mark.args}


def test_every_rule_names_a_section_that_there_is() -> None:
    known = {*SECTIONS, *LATER}
    assert {rule: sections for rule, sections in rules() if not sections or not sections <= known} == {}


def test_every_section_has_a_rule() -> None:
    named = set().union(*(sections for _, sections in rules()))
    assert {*SECTIONS, *LATER} - named == set()


def test_a_profile_points_the_suite_at_another_server(target: Target, plain: SharedTable, tmp_path: Path) -> None:
    profile = {
        "endpoint": f"{target.endpoint}/",
        "bearerToken": target.token,
        "roles": {"plain": {"table": f"{plain.share}.{plain.schema}.{plain.name}"}},
    }
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(profile))
    other = load_target(tmp_path / "profile.yaml")
    with other.session:
        assert not other.own
        assert other.table("plain").metadata().lines == plain.metadata().lines
        with pytest.raises(pytest.skip.Exception, match="no table for the role feed"):
            other.table("feed")
        with pytest.raises(pytest.skip.Exception, match="no location"):
            other.table("plain").truth()


@pytest.mark.shared
def test_every_heading_of_the_document_is_listed() -> None:
    text = (require_shared() / "spec" / "PROTOCOL.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    headings = {heading.strip().lower() for heading in re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)}
    assert headings - {name.lower() for name in (*SECTIONS, *WITHOUT_RULES)} == set()
