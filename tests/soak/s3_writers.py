"""The writers of `tests.soak.writers` on an S3-compatible server that it starts.

python -m tests.soak.s3_writers
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.interop.buckets import options
from tests.interop.servers import s3_bucket
from tests.soak.writers import run


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, s3_bucket(Path(folder)) as bucket:
        print(f"8 writers, 50 commits each, on {bucket.url}")
        print(run(f"{bucket.url}/writers", options(bucket)))


if __name__ == "__main__":
    main()
