"""Plant faults one at a time and report which test finds each: `python -m tests.faults [--room ROOM] [NAME …]`.

The tests run in copies; the work tree is never changed. The Makefile defines the suites. The tests that a fault names
run first; the rest of the suite runs only if they pass. A find counts only if the same test passes without the fault.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.faults.copies import ROOT, environment, work_tree
from tests.faults.faults import FAULTS, ROOMS, Fault
from tests.faults.finder import VARIABLE

TARGETS = {"test": ("test",), "all": ("test-all", "test")}
"""The targets of the Makefile that run a suite: the first that there is."""
RESULT = ROOT / "build" / "faults.md"
_FOR_ALL = {"-n", "--dist", "--durations", "--ignore"}
"""Options with a value that only a whole suite needs."""
_OWN_TESTS = "--ignore=tests/faults"
"""They notice every fault, because its text is no longer there."""
_PYTEST_PASSED, _PYTEST_NOTHING = 0, 5


@dataclass(frozen=True)
class Outcome:
    """What a suite made of a fault: the test that found it, if any, and after how many seconds."""

    found: str | None
    seconds: float
    trouble: str = "not found"
    """Why it was not found."""

    def __str__(self) -> str:
        return f"{self.found or self.trouble}, {self.seconds:.0f} s"


class PytestError(Exception):
    """Pytest itself failed, or took too long: no test was to blame."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    chosen = [fault for fault in FAULTS if not options.names or fault.name in options.names]
    chosen = [fault for fault in chosen if not options.room or fault.room in options.room]
    suites = ["test", "all"] if options.suite == "both" else [options.suite]
    outcomes: dict[str, list[Outcome]] = {}
    with ExitStack() as stack:
        control = Control(stack.enter_context(work_tree(commit=options.commit)))
        for fault in chosen:
            with work_tree(fault, options.commit) as copy:
                outcomes[fault.name] = [_try(fault, copy, suite, control, options) for suite in suites]
            print(f"{fault.name}: {'; '.join(map(str, outcomes[fault.name]))}", flush=True)
    table = format_table(chosen, suites, outcomes)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(table)
    print(f"\n{table}")
    return 0 if all(any(o.found for o in found) for found in outcomes.values()) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults to plant; all by default")
    parser.add_argument("--room", action="append", choices=ROOMS, help="only faults of this part; can be repeated")
    parser.add_argument("--suite", choices=[*TARGETS, "both"], default="both", help="which tests run")
    parser.add_argument("--first-only", action="store_true", help="run only the tests that a fault names")
    parser.add_argument("--commit", help="test this commit instead of the work tree")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit for one run of pytest (%(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - {fault.name for fault in FAULTS}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    return options


def _try(fault: Fault, copy: Path, suite: str, control: Control, options: argparse.Namespace) -> Outcome:
    start = time.monotonic()
    try:
        for command in _stages(fault, copy, suite, first_only=options.first_only):
            while (found := run_tests(copy, command, options.seconds)) is not None:
                seconds = time.monotonic() - start
                if control.passes(found, options.seconds):
                    return Outcome(found, seconds)
                command = [*command, f"--deselect={found}" if "::" in found else f"--ignore={found}"]
    except PytestError as error:
        return Outcome(None, time.monotonic() - start, str(error))
    return Outcome(None, time.monotonic() - start)


def _stages(fault: Fault, copy: Path, suite: str, *, first_only: bool) -> Iterator[list[str]]:
    """The arguments of pytest, run by run."""
    runs = suite_runs(suite)
    for test in fault.first:
        if (copy / test.partition("::")[0]).exists():
            yield [*for_some_files(runs[0]), test]
    yield from () if first_only else ([*run, _OWN_TESTS] for run in runs)


def suite_runs(suite: str) -> list[list[str]]:
    """The arguments of each run of pytest that make up a suite, as `make` would call it."""
    for target in TARGETS[suite]:
        made = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        lines = [shlex.split(line) for line in made.stdout.replace("\\\n", " ").splitlines() if " pytest " in line]
        if made.returncode == 0 and lines:
            return [line[line.index("pytest") + 1 :] for line in lines]
    raise SystemExit(f"no target of the Makefile runs the suite {suite!r}")


def for_some_files(arguments: Sequence[str]) -> list[str]:
    """The options that matter for some files alone too, such as `--sample`."""
    kept: list[str] = []
    following = iter(arguments)
    for argument in following:
        name, equals, _ = argument.partition("=")
        if name in _FOR_ALL:
            _ = "" if equals else next(following)
        elif not (ROOT / argument).exists():
            kept.append(argument)
    return kept


def run_tests(copy: Path, arguments: Sequence[str], seconds: float) -> str | None:
    """Run pytest in a copy up to its first failure. Return the failing test; None if all passed.

    Raises `PytestError`."""
    with tempfile.TemporaryDirectory(prefix="lakeport-found-") as directory:
        noted = Path(directory, "test")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-p", "tests.faults.finder", *arguments]
        with open(Path(directory, "output"), "w+") as output:
            run = subprocess.Popen(
                command,
                cwd=copy,
                env=environment(copy) | {VARIABLE: str(noted)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = run.wait(seconds)
            except subprocess.TimeoutExpired:
                raise PytestError(f"pytest ran into the limit of {seconds:g} s") from None
            finally:
                _end(run)
            if noted.exists():
                return noted.read_text()
            if code in (_PYTEST_PASSED, _PYTEST_NOTHING):
                return None
            output.seek(0)
            print(output.read()[-3000:], file=sys.stderr)
            raise PytestError(f"pytest failed with status {code}")


def _end(run: subprocess.Popen[bytes]) -> None:
    """Stop what is left of a run: Spark and servers outlive a killed pytest."""
    try:
        os.killpg(run.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    run.wait()


class Control:
    """A copy without a fault: a test that fails here too finds nothing."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._known: dict[str, bool] = {}

    def passes(self, test: str, seconds: float) -> bool:
        if test not in self._known:
            self._known[test] = run_tests(self._copy, [test], seconds) is None
        return self._known[test]


def format_table(faults: Sequence[Fault], suites: Sequence[str], outcomes: dict[str, list[Outcome]]) -> str:
    """A table in Markdown."""
    head = ["fault", "feature", *(f"found by make {TARGETS[suite][0]}" for suite in suites)]
    rows = [[f.name, f.feature, *map(str, outcomes[f.name])] for f in faults]
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    missed = [f"- {f.name}: {f.seen}" for f in faults if not any(o.found for o in outcomes[f.name])]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n" + ("\nNot found:\n\n" + "\n".join(missed) + "\n" if missed else "")


if __name__ == "__main__":
    sys.exit(main())
