"""An object store in memory that records its requests."""

from typing import Any

from obstore.store import MemoryStore

from lakeport.engine import ComposedEngine, engine_over
from lakeport.engine.storage.objects import ObjectFiles
from lakeport.engine.storage.storage import Storage

ROOT = "s3://bucket"


class RecordingStore:
    """Passes everything on; `asked` has the method and the object of each request."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.asked: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def asked(key: Any = None, *given: Any, **more: Any) -> Any:
            self.asked.append((name, str(key).rpartition("/")[2]))
            return method(key, *given, **more)

        return asked


def recording_engine(store: MemoryStore | None = None) -> tuple[ComposedEngine, RecordingStore]:
    """An engine over the bucket, whose requests are recorded."""
    recording, storage = RecordingStore(store or MemoryStore()), Storage()
    storage._stores[ROOT] = ObjectFiles(ROOT, recording)  # type: ignore[arg-type]
    return engine_over(storage), recording
