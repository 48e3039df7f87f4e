"""Threads for what blocks: one table never has all of them."""

from __future__ import annotations

import asyncio
import gc
from threading import Event

import pytest

from lakeport.server.http.lanes import BlockingPool

SECONDS = 20


class Hanging:
    """A storage that answers when it is told to."""

    def __init__(self) -> None:
        self.answers, self.calls = Event(), 0

    def read(self) -> str:
        self.calls += 1
        assert self.answers.wait(SECONDS)
        return "late"

    def fail(self) -> None:
        self.read()
        raise ValueError("the storage is broken")


async def begun(hanging: Hanging, calls: int) -> None:
    while hanging.calls < calls:
        await asyncio.sleep(0.001)


def test_a_table_that_hangs_leaves_threads_for_others() -> None:
    async def scenario() -> None:
        pool, hanging = BlockingPool("test", 8), Hanging()
        try:
            stuck = [asyncio.create_task(pool.lane("slow", f"r{n}").run(hanging.read)) for n in range(20)]
            await begun(hanging, 2)
            async with asyncio.timeout(SECONDS):
                assert await pool.lane("fast", "r0").run(str.upper, "at once") == "AT ONCE"
            assert hanging.calls == 2
            hanging.answers.set()
            assert await asyncio.gather(*stuck) == ["late"] * 20
        finally:
            hanging.answers.set()
            pool.close()

    asyncio.run(scenario())


def test_a_recipient_leaves_threads_of_a_table_for_others() -> None:
    async def scenario() -> None:
        pool, hanging = BlockingPool("test", 16), Hanging()
        try:
            stuck = [asyncio.create_task(pool.lane("t", "greedy").run(hanging.read)) for _ in range(20)]
            await begun(hanging, 2)
            async with asyncio.timeout(SECONDS):
                assert await pool.lane("t", "ann").run(str.upper, "at once") == "AT ONCE"
            assert hanging.calls == 2
            hanging.answers.set()
            assert await asyncio.gather(*stuck) == ["late"] * 20
        finally:
            hanging.answers.set()
            pool.close()

    asyncio.run(scenario())


def test_a_recipient_of_many_tables_leaves_threads_for_others() -> None:
    async def scenario() -> None:
        pool, hanging = BlockingPool("test", 8), Hanging()
        try:
            lanes = [pool.lane(f"t{number}", "greedy") for number in range(20)]
            stuck = [asyncio.create_task(lane.run(hanging.read)) for lane in lanes]
            await begun(hanging, 4)
            async with asyncio.timeout(SECONDS):
                assert await pool.lane("t", "ann").run(str.upper, "at once") == "AT ONCE"
            assert hanging.calls == 4
            hanging.answers.set()
            assert await asyncio.gather(*stuck) == ["late"] * 20
        finally:
            hanging.answers.set()
            pool.close()

    asyncio.run(scenario())


def test_who_gives_up_waiting_for_a_thread_takes_none() -> None:
    async def scenario() -> None:
        pool, hanging = BlockingPool("test", 4), Hanging()
        try:
            busy = asyncio.create_task(pool.lane("t", "ann").run(hanging.read))
            await begun(hanging, 1)
            for recipient in ("ann", "bob", "bob"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await pool.lane("t", recipient).run(hanging.read)
            hanging.answers.set()
            assert await busy == "late"
            async with asyncio.timeout(SECONDS):
                assert await pool.lane("t", "bob").run(hanging.read) == "late"
            assert hanging.calls == 2
        finally:
            hanging.answers.set()
            pool.close()

    asyncio.run(scenario())


def test_a_call_that_nobody_waits_for_any_more_still_counts() -> None:
    async def scenario() -> None:
        pool, hanging = BlockingPool("test", 16), Hanging()
        try:
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await pool.lane("slow", "r").run(hanging.read)
            assert hanging.calls == 2
        finally:
            hanging.answers.set()
            pool.close()

    asyncio.run(scenario())


def test_the_failure_of_such_a_call_is_no_news() -> None:
    async def scenario() -> list[object]:
        news: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: news.append(context))
        pool, hanging = BlockingPool("test", 4), Hanging()
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await pool.lane("slow", "r").run(hanging.fail)
            hanging.answers.set()
            assert await pool.lane("slow", "r").run(len, "after it") == 8
            gc.collect()
            return news
        finally:
            hanging.answers.set()
            pool.close()

    assert asyncio.run(scenario()) == []


def test_a_failure_is_told_to_who_waits() -> None:
    async def scenario() -> None:
        pool, hanging = BlockingPool("test", 1), Hanging()
        hanging.answers.set()
        try:
            with pytest.raises(ValueError, match="the storage is broken"):
                await pool.lane("table", "r").run(hanging.fail)
        finally:
            pool.close()

    asyncio.run(scenario())
