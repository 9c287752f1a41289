"""The requests of the C library, answered with schema and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow as pa

from lazydelta._stream import Stream
from lazydelta.errors import ConfigError, PredicateError
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Answer", "Tables"]

_LAZY = pa.schema([
    pa.field("path", pa.string(), nullable=False), pa.field("size", pa.int64(), nullable=False)
])


class Answer(NamedTuple):
    """What a request returns."""

    version: int
    schema: pa.Schema
    batches: Stream[tuple[pa.RecordBatch, str]]


class Tables:
    """Tables that were opened before, with their last snapshots."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], Table] = {}

    def opened(self, url: str, options: str) -> Answer:
        """Load the newest snapshot."""
        version = self._table(url, options).version
        return Answer(version, pa.schema([]), Stream(iter(())))

    def lazy(self, url: str, predicate: str, limit: str) -> Answer:
        """List files with the columns that the callback receives."""
        scan = self._table(url, "").scan(parse_predicate(predicate))
        resolver = scan.snapshot.resolver

        def batches() -> Iterator[tuple[pa.RecordBatch, str]]:
            with scan.file_batches(limit=int(limit) or None) as files:
                for batch in files:
                    uris = resolver.uris(batch.column("path")).cast(pa.string())
                    yield pa.record_batch([uris, batch.column("size")], schema=_LAZY), ""

        return Answer(scan.snapshot.version, _LAZY, Stream(batches()))

    def plan(self, url: str, options: str, request: str) -> Answer:
        """List files with all columns."""
        scan = self._table(url, options).scan()

        def batches() -> Iterator[tuple[pa.RecordBatch, str]]:
            with scan.file_batches() as files:
                for batch in files:
                    yield batch, ""

        return Answer(scan.snapshot.version, scan.file_schema, Stream(batches()))

    def _table(self, url: str, options: str) -> Table:
        key = (url, options)
        if key not in self._tables:
            self._tables[key] = Table.open(url, orjson.loads(options) if options else None)
        return self._tables[key]


def parse_predicate(text: str) -> Any:
    """Return the predicate of a JSON text: an equality map, tuples, or an SQL string."""
    if not text.strip():
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PredicateError(text, f"it is not JSON ({error})") from None
