"""The requests of the C library, answered with a version, a schema and batches.

The request itself, `ScanRequest`, is that of the servers; only its `table` is an address here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow as pa

from lazydelta._stream import Stream
from lazydelta.errors import ConfigError, PredicateError
from lazydelta.ffi import tuning
from lazydelta.scan import Delivered, FileRecords
from lazydelta.serving import ScanRequest, start_scan
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Answer", "OpenTables"]

_LAZY_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
    ]
)


class Answer(NamedTuple):
    """The answer to a request."""

    version: int
    schema: pa.Schema
    batches: Stream[Delivered]


class OpenTables:
    """Answers requests; keeps the handles of the latest tables, with their last snapshots."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[str, str], Table] = OrderedDict()

    def open(self, url: str, options: str) -> Answer:
        """Load the newest version."""
        return Answer(self._table(url, options).version, pa.schema([]), Stream(iter(())))

    def lazy(self, url: str, predicate: str, limit: str) -> Answer:
        """Start a scan of files, with the two columns that the callback receives.

        Raises:
            ClientCapabilityError: A path and a size are not enough to read the table's files.
        """
        scan = self._table(url, "").scan(_where(_parsed("predicate_json", predicate)))
        scan.file_record_schema(FileRecords())  # refuses such a table
        found = scan.add_batches(limit=int(limit) or None)
        files = _locations(found, scan.snapshot.resolver.client_uris)
        return Answer(scan.snapshot.version, _LAZY_SCHEMA, Stream(files))

    def plan(self, url: str, options: str, request: str) -> Answer:
        """Start a scan of files, rows or changes."""
        document = _parsed("request_json", request)
        document = {} if document is None else document
        if not isinstance(document, dict):
            raise ConfigError("request_json", "must be a JSON object")
        document = document | {"table": url, "where": _where(document.get("where"))}
        started = start_scan(self._table(url, options), ScanRequest.from_json(document))
        return Answer(started.version, started.schema, started.batches)

    def _table(self, url: str, options: str) -> Table:
        key = (url, options)
        if key not in self._tables:
            self._tables[key] = Table.open(url, _parsed("options_json", options))
        self._tables.move_to_end(key)
        while len(self._tables) > tuning.OPEN_TABLES_AT_MOST:
            self._tables.popitem(last=False)
        return self._tables[key]


def _parsed(name: str, text: str) -> Any:
    """Return the value of a JSON argument; an empty one is absent."""
    try:
        return orjson.loads(text) if text.strip() else None
    except orjson.JSONDecodeError as error:
        raise ConfigError(name, f"is not JSON: {error}") from None


def _where(predicate: Any) -> str | None:
    """Return the predicate as the string of a request: SQL, or the JSON of a map or list."""
    if predicate is None or isinstance(predicate, str):
        return predicate
    if isinstance(predicate, dict | list):
        return orjson.dumps(predicate).decode()
    raise PredicateError(
        repr(predicate), "give a JSON object, a list of conditions or an SQL string"
    )


def _locations(
    adds: Stream[pa.RecordBatch], uris: Callable[[pa.Array], pa.Array]
) -> Iterator[Delivered]:
    with adds:
        for batch in adds:
            columns = [uris(batch.column("path")), batch.column("size")]
            yield Delivered(pa.RecordBatch.from_arrays(columns, schema=_LAZY_SCHEMA), "")
