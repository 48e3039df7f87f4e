"""Who may import whom, read from the syntax trees of the sources; and where each room has its tests."""

import ast
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCES = TESTS.parent / "src"

LEAVES = {"errors", "version"}


def read_rooms() -> Iterator[tuple[str, set[str]]]:
    """Each room, and those that it may import."""
    for line in (TESTS / "rooms.txt").read_text().splitlines():
        if not line.startswith("#"):
            room, _, names = line.partition(":")
            yield room, set(names.split())


ROOMS = dict(read_rooms())
MOST_MODULES = 13
# Imports that go up, for annotations alone.
TYPES_ABOVE = {
    ("kernel.scan", "kernel.snapshot"),
    ("relations", "frame"),
    ("server.http", "server.catalog"),
    ("spark.frames", "frame"),
    ("spark.native", "frame"),
}

# Rooms and modules that need an extra: the rest imports them only inside a function.
EXTRAS: dict[str, set[str]] = {
    "server": {"litestar", "uvicorn", "uvloop", "sqlalchemy", "yaml", "prometheus_client"},
    "relations": {"duckdb", "polars"},
    "spark": {"pyspark"},
    "workers.spark": {"pyspark"},
    "iceberg": {"pyiceberg"},
    "testing": {"pytest"},
}
CLOUDS = {"boto3", "botocore", "azure", "google"}
OPTIONAL = CLOUDS.union({"pandas", "polars", "duckdb", "deltalake", "jwt"}, *EXTRAS.values())
# Required, but worth deferring: who plans a scan on a disk without a SQL filter need not pay for their memory.
# And the commands: an interrupt while they are loaded is not to be told with a traceback.
DEFERRED = {
    "obstore",
    "sqlglot",
    "pyarrow._parquet",
    "pyarrow.parquet",
    "lakeport.client",
    "lakeport.connection",
    "lakeport.server.catalog.sql_source",
}
DEFERRED |= {"lakeport.cli.app", "lakeport.spark.loading"}
# A catalog in SQLite or in a file does without psycopg.
DEFERRED |= {"lakeport.server.catalog.postgresql"}
# pyiceberg takes a second to load: who converts to a path does without it.
DEFERRED |= {"lakeport.iceberg.targets.catalog", "lakeport.iceberg.verification.pyiceberg_reader"}
# Datasets of Arrow import pandas.
DEFERRED |= {"lakeport.relations.arrow_dataset"}
# What only one command needs: DuckDB, and the terminal's lines.
DEFERRED |= {"lakeport.cli.sql.session", "lakeport.cli.sql.tables", "lakeport.cli.sql.prompt"}
# What commands that print JSON do without.
DEFERRED |= {"rich", "pyarrow.csv"}

# The kernel does no I/O and knows no clock and no environment: all of that is the engine's.
NOT_IN_KERNEL = {"os", "pathlib", "time", "socket", "subprocess", "shutil", "tempfile", "obstore"}
NOT_IN_KERNEL |= {"pyarrow.parquet", "pyarrow.dataset", "pyarrow.fs"}

# Rooms that have no tests of their own, by the tests that concern them most.
TESTED_WITH_OTHERS: dict[str, set[str]] = {
    "cli/tables": {"cli.display", "cli.progress", "cli.rendering", "cli.writing"},
    "cli/test_app.py": {"__main__", "cli.options"},
    "client/http": {"testing.http", "version"},
    "client/tables/test_commits.py": {"source"},
    "engine/expressions": {"testing.rowwise"},
    "engine/test_contracts.py": {"kernel.engine", "testing", "testing.builder", "testing.contracts"},
    "iceberg/test_increments.py": {"testing.counting"},
    "kernel/log": {"kernel.actions"},
    "server/records": {"server.middleware"},
    "server/test_app.py": {"server.routes", "server.services"},
    "spark/processes/test_session.py": {"spark.session"},
    "spark/test_frames.py": {"spark.loading"},
    "tables/test_alter.py": {"tables.columns", "tables.log", "tables.operation", "tables.properties"},
    "tables/test_vacuum.py": {"engine.clock"},
    "test_public_surface.py": {"__init__"},
}


@dataclass(frozen=True)
class Import:
    """One imported dotted name, and where the statement stands."""

    name: str
    line: int
    in_function: bool = False
    for_types: bool = False

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]

    def is_within(self, modules: set[str]) -> bool:
        return any(f"{self.name}.".startswith(f"{module}.") for module in modules)

    @property
    def extra(self) -> str | None:
        """What is imported of lakeport and needs an extra."""
        return next((name for name in EXTRAS if self.is_within({f"lakeport.{name}"})), None)

    @property
    def room(self) -> str | None:
        """The room of lakeport that is imported, or None for a foreign module."""
        return room_of(self.name) if self.top == "lakeport" else None


def room_of(name: str) -> str:
    """The room that a dotted name of lakeport is in: the longest that fits."""
    parts = name.split(".")[1:]
    rooms = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((room for room in rooms if room in ROOMS), "__init__")


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[Import]:
    """Every import in a module, with relative names made absolute."""
    yield from _imports(tree, module.split(".") if is_package else module.split(".")[:-1], False, False)


def _imports(node: ast.AST, package: list[str], in_function: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function, for_types)
        elif isinstance(child, ast.ImportFrom):
            above = package[: len(package) - child.level + 1] if child.level else []
            source = ".".join([*above, *filter(None, [child.module])])
            for alias in child.names:
                yield Import(f"{source}.{alias.name}", child.lineno, in_function, for_types)
        elif isinstance(child, ast.Constant) and is_module(child.value):
            yield Import(child.value, child.lineno)  # imported lazily, by its name
        else:
            function = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, package, function, for_types or _is_type_checking(child))


def is_module(value: object) -> bool:
    """Whether a constant is the name of one of lakeport's modules."""
    if not isinstance(value, str) or not re.fullmatch(r"lakeport(\.\w+)+", value):
        return False
    path = SOURCES.joinpath(*value.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What a module's imports break, one sentence each."""
    room = room_of(module)
    if room == "__init__" and module != "lakeport":
        return [f"{module} is no part of the design"]
    found = imports(ast.parse(source), module, is_package)
    own = next((name for name in EXTRAS if f"{module}.".startswith(f"lakeport.{name}.")), None)
    return [f"{module}:{i.line}: {reason}" for i in found for reason in _broken_rules(room, own, i)]


def _broken_rules(room: str, own_extra: str | None, i: Import) -> Iterator[str]:
    """`own_extra` is the entry of `EXTRAS` that the importing module belongs to."""
    needs_extra = i.top in OPTIONAL - EXTRAS.get(own_extra or "", set()) or i.extra not in {None, own_extra}
    if i.room is not None and i.room not in below(room) and not (i.for_types and may_name(room, i.room)):
        yield f"{room} imports {i.room}"
    if i.in_function and not needs_extra and not i.is_within(DEFERRED):
        yield f"{i.name} is imported inside a function"
    if needs_extra and not (i.in_function or i.for_types):
        yield f"{i.name} is optional, but imported with the module"
    if room.startswith("kernel") and i.is_within(NOT_IN_KERNEL):
        yield f"the kernel imports {i.name}"


def may_name(room: str, above: str) -> bool:
    """Whether a room may name another in annotations; a package may name its own rooms, to export them."""
    return (room, above) in TYPES_ABOVE or above.startswith(f"{room}.")


def below(room: str) -> set[str]:
    """The rooms that a room may import, itself included."""
    kernel = {name for name in ROOMS if name.startswith("kernel.")} if "kernel" in ROOMS[room] else set()
    return {room, *ROOMS[room], *kernel} | (set() if room in LEAVES else LEAVES)


def module_of(path: Path) -> str:
    return ".".join((path.parent if path.name == "__init__.py" else path.with_suffix("")).relative_to(SOURCES).parts)


MODULES = {module_of(path): path for path in sorted(SOURCES.glob("lakeport/**/*.py"))}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_the_design_allows(module: str) -> None:
    path = MODULES[module]
    assert violations(path.read_text(), module, is_package=path.name == "__init__.py") == []


def test_rooms_import_downwards_only() -> None:
    TopologicalSorter({room: below(room) - {room} for room in ROOMS}).prepare()  # raises CycleError, with names


def test_no_room_is_too_full_and_none_is_empty() -> None:
    sizes = Counter(room_of(module) for module, path in MODULES.items() if path.name != "__init__.py")
    packages = {room_of(module) for module, path in MODULES.items() if path.name == "__init__.py"}
    assert {room: size for room, size in sizes.items() if size > MOST_MODULES} == {}
    assert sizes.keys() | packages == ROOMS.keys()


def test_no_room_may_import_more_than_it_does() -> None:
    used = {(room_of(module), room_of(name)) for module in MODULES for name in imported(module)}
    used |= {(room, "kernel") for room, name in used if name.startswith("kernel")}
    assert [(room, name) for room, names in ROOMS.items() for name in names if (room, name) not in used] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Nor inside functions; imports for types alone do not count."""
    TopologicalSorter({module: set(imported(module)) for module in MODULES}).prepare()  # raises CycleError, with names


def imported(module: str) -> Iterator[str]:
    """The modules of lakeport that a module imports when it runs."""
    path = MODULES[module]
    for found in imports(ast.parse(path.read_text()), module, path.name == "__init__.py"):
        name = found.name if found.name in MODULES else found.name.rpartition(".")[0]
        if not found.for_types and name in MODULES and name != module:
            yield name


def test_each_room_has_tests_in_its_folder_or_file() -> None:
    """`kernel.log` in tests/kernel/log, `frame` in tests/test_frame.py."""
    untested = {room for room in ROOMS if not has_tests(TESTS.joinpath(*room.split(".")))}
    assert untested == set().union(*TESTED_WITH_OTHERS.values())
    assert [place for place in TESTED_WITH_OTHERS if not (TESTS / place).exists()] == []


def has_tests(place: Path) -> bool:
    return any(place.glob("**/test_*.py")) or place.with_name(f"test_{place.name}.py").exists()


def test_no_test_imports_another_one() -> None:
    """What tests share is in helper modules."""
    found = {
        str(path.relative_to(TESTS)): one.name
        for path in TESTS.glob("**/*.py")
        for one in imports(ast.parse(path.read_text()), "tests", is_package=True)
        if re.match(r"tests\.(\w+\.)*test_", one.name)
    }
    assert found == {}


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("lakeport.kernel.scan", "import lakeport.engine.json", "kernel.scan imports engine.json"),
        ("lakeport.kernel.scan", "from lakeport import engine", "kernel.scan imports engine"),
        ("lakeport.kernel.scan.plan", "from ...engine import json", "kernel.scan imports engine.json"),
        ("lakeport.kernel.scan", "from lakeport import scan", "kernel.scan imports __init__"),
        ("lakeport.kernel.log", "from os import environ", "the kernel imports os.environ"),
        ("lakeport.kernel.log", "import pyarrow.parquet as pq", "the kernel imports pyarrow.parquet"),
        ("lakeport.errors", "from lakeport.kernel import schema", "errors imports kernel.schema"),
        ("lakeport.client.rest", "from lakeport.server import app", "client.rest imports server.app"),
        ("lakeport.iceberg.convert", "from lakeport.client import rest", "iceberg.convert imports client.rest"),
        (
            "lakeport.server.app",
            "def f():\n    from lakeport.iceberg import convert",
            "server.app imports iceberg.convert",
        ),
        ("lakeport.engine.json", "if TYPE_CHECKING:\n    from lakeport import frame", "engine.json imports frame"),
        ("lakeport.engine.json", "def f():\n    import msgspec", "msgspec is imported inside a function"),
        ("lakeport.frame", "import pandas as pd", "pandas is optional, but imported with the module"),
        ("lakeport.cli.sharing.serve", "from lakeport.server import app", "lakeport.server.app is optional"),
        ("lakeport.utils", "", "utils is no part of the design"),
    ],
)
def test_a_violation_is_found(module: str, source: str, reason: str) -> None:
    assert any(reason in violation for violation in violations(source, module))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lakeport.kernel.scan", "from lakeport.errors import CorruptTableError\nfrom . import schema\nimport pyarrow"),
        ("lakeport.tables.operation", "from lakeport.engine import default_engine\nfrom lakeport.kernel import scan"),
        ("lakeport.frame", "def to_pandas():\n    import pandas"),
        ("lakeport.frame", "if TYPE_CHECKING:\n    import polars"),
        ("lakeport.kernel.expressions.sql", "def parse():\n    from sqlglot import exp"),
        ("lakeport.server.answers.answer_lines", "import litestar\nfrom lakeport.sharing import models"),
        ("lakeport.cli.sharing.serve", "def run():\n    from lakeport.server import serve"),
    ],
)
def test_what_the_design_allows_passes(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_the_picture_shows_the_rooms_as_they_are() -> None:
    script = SOURCES.parent / "scripts" / "draw-architecture.py"
    drawn = runpy.run_path(str(script))["draw"]()
    assert (SOURCES.parent / "docs" / "architecture.svg").read_text() == drawn, f"run {script.name}"
