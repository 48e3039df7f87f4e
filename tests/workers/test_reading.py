"""Reading several files at once: in their order, and not far ahead of the consumer."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from threading import Event

from lakeport.workers.reading import in_order


def test_only_a_few_batches_are_read_ahead_of_a_consumer_that_stops() -> None:
    read: Counter[str] = Counter()
    at_the_end = Event()

    def batches(file: str) -> Iterator[str]:
        for number in range(100):
            read[file] += 1
            yield f"{file}{number}"
        at_the_end.set()

    with closing(in_order("abc", batches, threads=2)) as rows:
        assert [next(rows) for _ in range(3)] == ["a0", "a1", "a2"]
        assert not at_the_end.wait(0.3)
        assert read["a"] < 10
        assert read["b"] < 10
        assert read["c"] == 0
