"""A pinned snapshot as a small JSON: enough to open exactly the same version again, anywhere.

Carries the address (without secrets), the version, how it was chosen, the protocol's four fields
and a hash of the content. The hash covers metadata, protocol and every live file; it does not
depend on the order in which files are found, so every strategy and process computes the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import orjson

from lazydelta.errors import BundleMismatchError, ConfigError
from lazydelta.scan.scan import Scan
from lazydelta.snapshot import parse_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.snapshot import Snapshot

__all__ = ["Bundle", "check_bundle", "content_hash", "pin"]

_FORMAT = 1
_BY_VERSION, _BY_TIME = "Table.snapshot(version)", "Table.snapshot(timestamp)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Not the text of the statistics: a checkpoint may hold them typed, and be written later.
_HASHED = (
    "path",
    "size",
    "modification_time",
    "partition_values",
    "deletion_vector",
    "num_records",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What `Table.open_bundle` needs to find this very snapshot again."""

    table_uri: str
    resolved_version: int
    selector: dict[str, Any]
    """How it was asked for: `{"version": n}` or `{"timestamp_rfc3339": "..."}`."""
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str]
    writer_features: list[str]
    snapshot_hash: str
    load_api: str = _BY_VERSION
    """The call that resolved the selector, for whoever audits that."""
    format: int = _FORMAT

    def to_json(self) -> str:
        """Return the bundle as JSON, keys in order, the same for the same snapshot."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Bundle:
        """Read a bundle back, or raise `ConfigError`."""
        try:
            read = orjson.loads(text)
        except (orjson.JSONDecodeError, TypeError) as error:
            raise ConfigError("bundle", f"it is no bundle: {error}") from None
        known = {field.name: field.default is MISSING for field in fields(cls)}
        given = read if isinstance(read, dict) else {}
        missing = [name for name, is_needed in known.items() if is_needed and name not in given]
        if missing or given.keys() - known:
            odd = f"without {', '.join(missing)}" if missing else "with more than it should have"
            raise ConfigError("bundle", f"it is no bundle: JSON {odd}")
        bundle = cls(**given)
        for field, kind in get_type_hints(cls).items():
            value = getattr(bundle, field)
            if type(value) is not (get_origin(kind) or kind):
                raise ConfigError("bundle", f"its {field} cannot be {value!r:.80}")
        if bundle.format != _FORMAT:
            reason = f"it has format {bundle.format}; this engine reads {_FORMAT}"
            raise ConfigError("bundle", reason)
        return bundle


def pin(snapshot: Snapshot, *, timestamp: datetime | str | None = None) -> Bundle:
    """Return a bundle for a snapshot; reads all of its files' metadata once to hash it.

    Args:
        snapshot: What to pin.
        timestamp: The time that it was asked for by, if it was.
    """
    protocol = snapshot.protocol
    chosen: dict[str, Any] = {"version": snapshot.version}
    if timestamp is not None:
        chosen = {"timestamp_rfc3339": parse_timestamp(timestamp).isoformat()}
    return Bundle(
        table_uri=snapshot.store.root,
        resolved_version=snapshot.version,
        selector=chosen,
        load_api=_BY_VERSION if timestamp is None else _BY_TIME,
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=sorted(protocol.reader_features or ()),
        writer_features=sorted(protocol.writer_features or ()),
        snapshot_hash=content_hash(snapshot),
    )


def check_bundle(bundle: Bundle, snapshot: Snapshot) -> None:
    """Raise `BundleMismatchError` unless the snapshot is what the bundle pinned."""
    found = content_hash(snapshot)
    if found != bundle.snapshot_hash:
        raise BundleMismatchError(
            snapshot.store.root, snapshot.version, bundle.snapshot_hash, found
        )


def content_hash(snapshot: Snapshot) -> str:
    """Return a hash of what the snapshot is: metadata, protocol and the set of its live files."""
    metadata, protocol = asdict(snapshot.metadata), asdict(snapshot.protocol)
    head = orjson.dumps(
        [snapshot.version, metadata, _sorted_features(protocol)], option=orjson.OPT_SORT_KEYS
    )
    files = 0
    with Scan(snapshot, strategy="forward").file_batches(all_fields=True) as batches:
        for batch in batches:
            files += _sum_of_hashes(batch)
    total = files % 2**128
    return hashlib.sha256(head + total.to_bytes(16, "big")).hexdigest()


def _sorted_features(protocol: dict[str, Any]) -> dict[str, Any]:
    lists = ("reader_features", "writer_features")
    return {k: sorted(v) if k in lists and v is not None else v for k, v in protocol.items()}


def _sum_of_hashes(batch: pa.RecordBatch) -> int:
    """Return the sum of the files' hashes: a hash of the set, whatever its order."""
    times = batch.schema.get_field_index("modification_time")
    batch = batch.set_column(times, "modification_time", batch.column(times).view("int64"))
    columns = [batch.column(name).to_pylist() for name in _HASHED]
    total = 0
    for path, size, modified, values, vector, records in zip(*columns, strict=True):
        row = [path, size, _moment(modified), sorted(values or ()), vector, records]
        digest = hashlib.blake2b(orjson.dumps(row), digest_size=16).digest()
        total += int.from_bytes(digest, "big")
    return total


def _moment(milliseconds: int | None) -> datetime | int | None:
    """Return a time; one that is in no calendar stays the number that the log has."""
    if milliseconds is None:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds
