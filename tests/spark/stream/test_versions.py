from dataclasses import dataclass, field

from lakeport.spark.stream.backlog import LatestVersion


@dataclass
class Table:
    """A table whose latest version is asked for, and a clock."""

    version: int = 3
    asked: list[float] = field(default_factory=list)
    time: float = 0.0

    def latest(self) -> int:
        self.asked.append(self.time)
        return self.version

    def now(self) -> float:
        return self.time


def test_the_version_is_asked_for_once_in_an_interval() -> None:
    table = Table()
    latest = LatestVersion(table.latest, 30, 3, table.now)
    table.version = 5
    seen = []
    for second in range(0, 100, 10):
        table.time = second
        seen.append(latest.current())
    assert table.asked == [30, 60, 90]
    assert seen == [3, 3, 3, 5, 5, 5, 5, 5, 5, 5]


def test_without_an_interval_the_version_is_asked_for_every_time() -> None:
    table = Table()
    latest = LatestVersion(table.latest, 0, 3, table.now)
    table.version = 4
    assert latest.current() == 4
    assert latest.current() == 4
    assert len(table.asked) == 2


def test_once_it_is_frozen_later_versions_do_not_count() -> None:
    table = Table()
    latest = LatestVersion(table.latest, 0, 3, table.now)
    latest.freeze()
    table.version = 9
    assert latest.current() == 3
