"""Tables whose stores count requests, and principals, for tests of what reaches data."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from lazydelta.serving import ServeConfig
from lazydelta.serving.config import Endpoint, PrincipalEntry, TableEntry
from lazydelta.serving.limits import Limits
from lazydelta.store import MemoryStore
from tests.builders import TableBuilder

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
TOKENS = {name: f"{name}-secret-token" for name in ("reader", "other", "late")}
_HOUR = timedelta(hours=1)


class RecordingStore(MemoryStore):
    """Remembers whether anything was requested of it."""

    native_files = False

    def __init__(self, objects):
        super().__init__(objects)
        self.requests = 0

    def __getattribute__(self, name):
        if name in ("list_from", "head", "read", "read_ranges", "open_input"):
            self.requests += 1
        return super().__getattribute__(name)


def recording_store():
    """Return the store of a table of two files."""
    store = MemoryStore()
    TableBuilder(store, protocol=PLAIN).commit("+a +b")
    return RecordingStore({path: store.read(path) for path in store._objects})


def principal(name, **more):
    """Return the entry of a principal, with its token in `TOKENS`."""
    digest = hashlib.sha256(TOKENS[name].encode()).hexdigest()
    return PrincipalEntry(name=name, token_sha256=(digest,), **more)


def guarded_config():
    """Return the settings of a server of both doors: `mine` is of `reader`, `theirs` of `other`."""
    return ServeConfig(
        tables=(
            TableEntry(name="mine", url="/nowhere/mine", principals=("reader",)),
            TableEntry(name="theirs", url="/nowhere/theirs", principals=("other",)),
        ),
        principals=(
            principal("reader"),
            principal("other", expires=datetime.now(UTC) + _HOUR),
            principal("late", expires=datetime.now(UTC) - _HOUR),
        ),
        http=Endpoint(port=0),
        flight=Endpoint(port=0),
        resume_key=b"secret",
        limits=Limits(failed_logins=10**6),
    )
