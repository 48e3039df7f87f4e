"""Makes a table, shares it with a recipient, serves it and reads it as the recipient does: part of `make demo`."""

import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lakeport
from lakeport import tables

LAKEPORT = [sys.executable, "-m", "lakeport"]


def say(heading: str) -> None:
    print(f"\n\033[1m{heading}\033[0m" if sys.stdout.isatty() else f"\n{heading}", flush=True)


def run(*arguments: str, folder: Path) -> None:
    say(f"$ lakeport {' '.join(arguments)}")
    subprocess.run([*LAKEPORT, *arguments], check=True, cwd=folder)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of a server on the catalog in the folder, for the length of the block."""
    say("$ lakeport serve --port 0 --audit-log audit.jsonl &")
    command = [*LAKEPORT, "serve", "--port", "0", "--audit-log", "audit.jsonl"]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, stderr=log)
    try:
        yield address_in(folder / "server.log", server)
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0


def address_in(log: Path, server: subprocess.Popen[bytes]) -> str:
    """What a server says at its start: `listening on http://…`."""
    while server.poll() is None:
        listening, _, _ = log.read_text().partition("\n")
        if listening.startswith("listening on "):
            print(listening)
            return listening.removeprefix("listening on ")
        time.sleep(0.05)
    sys.exit(f"the server has ended: {log.read_text()}")


def ask(profile: Path, path: str, body: dict[str, object] | None = None) -> list[dict[str, Any]]:
    """The lines of an answer, as anything that speaks HTTP gets them."""
    known = json.loads(profile.read_text())
    request = urllib.request.Request(
        known["endpoint"] + path,
        headers={"Authorization": f"Bearer {known['bearerToken']}"},
        data=None if body is None else json.dumps(body).encode(),
    )
    with urllib.request.urlopen(request) as answer:
        return [json.loads(line) for line in answer.read().splitlines()]


def read_by_http(profile: Path) -> None:
    say("By HTTP alone: what there is, and the signed URL of a file")
    print(f"  {ask(profile, '/shares')[0]}")
    *_, file = ask(profile, "/shares/sales/schemas/eu/tables/orders/query", {"predicateHints": ["id = 1"]})
    url = file["file"]["url"]
    with urllib.request.urlopen(url) as parquet:
        content = parquet.read()
    print(f"  {url.partition('?')[0]} has {len(content)} bytes")
    assert content[:4] == content[-4:] == b"PAR1"


def read_by_lakeport(table: str) -> None:
    say(f"By Lakeport: lakeport.scan({table.rpartition('/')[2]!r})")
    orders = lakeport.scan(table)
    rows = orders.where("amount > 50").to_arrow().sort_by("id")
    print("\n".join(f"  {row}" for row in rows.to_pylist()))
    assert rows["id"].to_pylist() == [1, 2]


def wait_for(status: int, profile: Path) -> None:
    """A running server takes a change of its catalog over within about a second."""
    for _ in range(100):
        if status_of(profile) == status:
            return
        time.sleep(0.1)
    sys.exit(f"the server does not answer {status}")


def status_of(profile: Path) -> int:
    try:
        ask(profile, "/shares/sales")
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    return 200


def share_orders(folder: Path) -> None:
    tables.create(str(folder / "orders"), {"id": [1, 2, 3], "city": ["Oslo", "Cork", "Oslo"], "amount": [120, 80, 40]})
    profile = folder / "acme.share"
    run("share", "add", "sales", folder=folder)
    run("table", "add", "sales.eu.orders", "orders", "--history", folder=folder)
    with served(folder) as url:
        run("recipient", "add", "acme", "--profile", profile.name, "--endpoint", url, folder=folder)
        run("grant", "add", "acme", "sales", folder=folder)
        wait_for(200, profile)
        read_by_http(profile)
        read_by_lakeport(f"{profile}#sales.eu.orders")
        run("recipient", "revoke", "acme", folder=folder)
        wait_for(401, profile)
        print("  its token is refused from now on")
    say("What the provider's audit log says")
    for line in (folder / "audit.jsonl").read_text().splitlines():
        entry = json.loads(line)
        print(f"  {entry['recipient'] or '-':<6}{entry['operation']:<18}{entry['table']}  files: {entry['files']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        share_orders(Path(temporary).resolve())
