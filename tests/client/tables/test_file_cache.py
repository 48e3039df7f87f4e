"""The cache of file contents: what it gives is right, or it gives nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.client.tables.file_cache import FileCache
from tests.client.faulty_proxy import Fault, faulty_proxy
from tests.client.shares import profile_text
from tests.rows import texts_of
from tests.server.running import running, sharing


def entries(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def size(directory: Path) -> int:
    return sum(path.stat().st_size for path in entries(directory))


def test_what_was_put_is_got_by_the_same_range_only(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    cache.put("a", 5, b"hello")
    assert cache.get("a", 5, 5) == b"hello"
    assert [cache.get(*other) for other in (("b", 5, 5), ("a", 4, 5), ("a", 5, 4), ("a\n5", 5, 5))] == [None] * 4
    assert FileCache(tmp_path).get("a", 5, 5) == b"hello"


@pytest.mark.parametrize("damage", ["cut", "longer", "flipped", "empty", "head", "swapped"])
def test_an_entry_that_is_damaged_is_forgotten(tmp_path: Path, damage: str) -> None:
    cache = FileCache(tmp_path)
    cache.put("a", 0, b"x" * 100)
    (entry,) = entries(tmp_path)
    content = entry.read_bytes()
    if damage == "swapped":
        cache.put("b", 0, b"y" * 99)
        content = next(path for path in entries(tmp_path) if path != entry).read_bytes()
    flipped = bytes([content[-1] ^ 1])
    damaged = {"cut": content[:-1], "longer": content + b"x", "flipped": content[:-1] + flipped, "empty": b""}
    entry.write_bytes({**damaged, "head": b"?" + content[1:], "swapped": content}[damage])
    assert cache.get("a", 0, 100) is None
    assert not entry.exists()
    cache.put("a", 0, b"x" * 100)
    assert cache.get("a", 0, 100) == b"x" * 100


def test_what_has_not_been_used_for_longest_goes(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit=10_000)
    for number in range(100):
        cache.put(f"file {number}", 0, bytes([number]) * 500)
        assert cache.get("file 0", 0, 500) == bytes(500)
        assert size(tmp_path) <= 10_000
    assert cache.get("file 99", 0, 500) == bytes([99]) * 500
    assert cache.get("file 1", 0, 500) is None
    assert len(entries(tmp_path)) > 10


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit=100)
    cache.put("a", 0, b"x" * 100)
    assert not entries(tmp_path)
    with pytest.raises(ValueError, match="1 byte or more"):
        FileCache(tmp_path, limit=0)


def test_a_directory_that_cannot_be_used_is_as_good_as_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    cache = FileCache(tmp_path / "file" / "cache")
    cache.put("a", 0, b"hello")
    assert cache.get("a", 0, 5) is None


def test_what_nobody_finished_is_cleared_away(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit=1_000)
    cache.put("a", 0, b"x" * 400)
    left = entries(tmp_path)[0].parent / "left.new"
    left.write_bytes(b"x" * 300)
    cache.put("b", 0, b"x" * 400)
    assert left.exists()
    os.utime(left, (0, 0))
    cache.put("c", 0, b"x" * 400)
    assert not left.exists()


WRITER = """
import random, sys
from lakeport.client.tables.file_cache import FileCache
cache, chance = FileCache(sys.argv[1], 60_000), random.Random(int(sys.argv[2]))
hits = 0
for _ in range(1500):
    number, length = chance.randrange(40), chance.randrange(1, 4000)
    found = cache.get(f"f{number}", number, length // 500 * 500 + 1)
    right = bytes([number]) * (length // 500 * 500 + 1)
    assert found in (None, right)
    hits += found is not None
    cache.put(f"f{number}", number, right)
print(hits)
"""


def test_several_processes_share_a_directory(tmp_path: Path) -> None:
    running_ones = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(seed)], stdout=subprocess.PIPE)
        for seed in range(3)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in running_ones]
    assert all(process.returncode == 0 for process in running_ones)
    assert all(int(output) > 0 for output in outputs)
    assert size(tmp_path) < 4 * 60_000
    assert not list(tmp_path.rglob("*.new"))


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cache, wrong = FileCache(tmp_path, limit=50_000), []

    def work(number: int) -> None:
        for turn in range(100):
            cache.put(f"f{turn % 7}", 0, bytes([turn % 7]) * 2_000)
            if cache.get(f"f{turn % 5}", 0, 2_000) not in (None, bytes([turn % 5]) * 2_000):
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Of a shared table.


def test_a_table_is_fetched_once(tmp_path: Path) -> None:
    rows = pa.table({"id": range(400_000), "text": [f"{i * 7919 % 10**9}" for i in range(400_000)]})
    tables.create(str(tmp_path / "t"), rows, properties={"delta.enableDeletionVectors": "true"})
    tables.append(str(tmp_path / "t"), rows.slice(0, 10))
    tables.delete(str(tmp_path / "t"), "id = 3")
    with (
        running(sharing({"a.b.t": tmp_path / "t"})) as started,
        faulty_proxy(started.url, lambda path, byte_range: Fault.NONE) as proxy,
    ):
        profile = profile_text(started.endpoint.replace(started.url, proxy.url))
        found, fetched = [], []
        for _ in range(3):
            with lakeport.connect(profile, cache=tmp_path / "cache") as connection:
                found.append(connection.scan("a.b.t").to_arrow())
                fetched.append(proxy.asked["file"])
        assert len(set(fetched)) == 1
        assert fetched[0] > 3
        assert found[0].num_rows == 400_008
        assert found[0].equals(found[1])
        for entry in entries(tmp_path / "cache"):
            entry.write_bytes(entry.read_bytes()[:-1] + b"?")
        with lakeport.connect(profile, cache=tmp_path / "cache") as connection:
            assert texts_of(connection.scan("a.b.t").limit(50)) == texts_of(found[0].slice(0, 50))
        assert proxy.asked["file"] > fetched[0]


def test_a_table_that_was_made_anew_is_fetched_anew(tmp_path: Path) -> None:
    """Its files may have the same names, and so the same ids, and the same sizes."""
    for turn, name in enumerate(("one", "two")):
        tables.create(str(tmp_path / name), {"id": [turn]})
        file = next((tmp_path / name).glob("*.parquet"))
        log = tmp_path / name / "_delta_log" / f"{0:020d}.json"
        log.write_text(log.read_text().replace(file.name, "part.parquet"))
        file.rename(file.with_name("part.parquet"))
    here = tmp_path / "here"
    found = []
    for name in ("one", "two"):
        (tmp_path / name).rename(here)
        with (
            running(sharing({"a.b.t": here})) as started,
            lakeport.connect(profile_text(started.endpoint), cache=tmp_path / "cache") as connection,
        ):
            found.append(connection.scan("a.b.t").to_arrow().column("id").to_pylist())
        here.rename(tmp_path / name)
    assert found == [[0], [1]]
