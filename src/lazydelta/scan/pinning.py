"""Pinned snapshots: a small JSON document that reopens exactly the same version anywhere.

It has the table's URI (without secrets), the version, the selector, the protocol's four fields and
two hashes: one of version, protocol and metadata, one of the bytes of the version's commit. Pinning
reads that commit only, regardless of the number of files. Checkpoints, compactions and log cleanup
do not change the hashes; a replaced table or a rewritten commit does.
"""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import orjson

from lazydelta.errors import BundleMismatchError, ConfigError, ObjectNotFoundError
from lazydelta.log import LOG_DIRECTORY
from lazydelta.snapshot import parse_timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from lazydelta.snapshot import SnapshotState

__all__ = ["Bundle", "check_bundle", "pin"]

_FORMAT = 2
_BY_VERSION, _BY_TIME = "Table.snapshot(version)", "Table.snapshot(timestamp)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A pinned snapshot, the input of `Table.open_bundle`."""

    table_uri: str
    resolved_version: int
    selector: dict[str, Any]
    """The request: `{"version": n}` or `{"timestamp_rfc3339": "..."}`."""
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str]
    writer_features: list[str]
    snapshot_hash: str
    """SHA-256 of version, protocol and metadata."""
    commit_hash: str
    """SHA-256 of the commit's bytes; empty if log cleanup has removed the commit."""
    load_api: str = _BY_VERSION
    """The call that resolved the selector, for audits."""
    format: int = _FORMAT

    def to_json(self) -> str:
        """Return the bundle as JSON with sorted keys: equal for equal snapshots."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, document: str | bytes) -> Bundle:
        """Parse a bundle.

        Raises:
            ConfigError: The JSON is not a bundle of this format.
        """
        try:
            parsed = orjson.loads(document)
        except (orjson.JSONDecodeError, TypeError) as error:
            raise ConfigError("bundle", f"it is no bundle: {error}") from None
        required = {field.name: field.default is MISSING for field in fields(cls)}
        values = parsed if isinstance(parsed, dict) else {}
        missing = [
            name for name, is_required in required.items() if is_required and name not in values
        ]
        unknown = sorted(values.keys() - required)
        if missing or unknown:
            problem = (
                f"lacks {', '.join(missing)}" if missing else f"has unknown {', '.join(unknown)}"
            )
            raise ConfigError("bundle", f"it is no bundle: the JSON {problem}")
        bundle = cls(**values)
        for field, kind in get_type_hints(cls).items():
            value = getattr(bundle, field)
            if type(value) is not (get_origin(kind) or kind):
                raise ConfigError("bundle", f"its {field} cannot be {value!r:.80}")
        if bundle.format != _FORMAT:
            reason = f"it has format {bundle.format}; this engine reads {_FORMAT}"
            raise ConfigError("bundle", reason)
        return bundle


def pin(snapshot: SnapshotState, *, timestamp: datetime | str | None = None) -> Bundle:
    """Return the bundle of a snapshot; reads the version's commit.

    Args:
        snapshot: The snapshot to pin.
        timestamp: The requested time, if the snapshot was selected by time.
    """
    protocol = snapshot.protocol
    selector: dict[str, Any] = {"version": snapshot.version}
    if timestamp is not None:
        selector = {"timestamp_rfc3339": parse_timestamp(timestamp).isoformat()}
    return Bundle(
        table_uri=snapshot.store.root,
        resolved_version=snapshot.version,
        selector=selector,
        load_api=_BY_VERSION if timestamp is None else _BY_TIME,
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=sorted(protocol.reader_features or ()),
        writer_features=sorted(protocol.writer_features or ()),
        snapshot_hash=_snapshot_hash(snapshot),
        commit_hash=_commit_hash(snapshot),
    )


def check_bundle(bundle: Bundle, snapshot: SnapshotState) -> None:
    """Raise `BundleMismatchError` unless the snapshot is the pinned one.

    A commit that log cleanup has removed, before or after pinning, is not compared.
    """
    actual = _snapshot_hash(snapshot), _commit_hash(snapshot)
    pinned = bundle.snapshot_hash, bundle.commit_hash
    for expected, current in zip(pinned, actual, strict=True):
        if expected and current and expected != current:
            raise BundleMismatchError(snapshot.store.root, snapshot.version, expected, current)


def _snapshot_hash(snapshot: SnapshotState) -> str:
    metadata, protocol = asdict(snapshot.metadata), asdict(snapshot.protocol)
    state = [snapshot.version, metadata, _sorted_features(protocol)]
    return hashlib.sha256(orjson.dumps(state, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _commit_hash(snapshot: SnapshotState) -> str:
    try:
        commit = snapshot.store.read(f"{LOG_DIRECTORY}/{snapshot.version:020d}.json")
    except ObjectNotFoundError:
        return ""
    return hashlib.sha256(commit).hexdigest()


def _sorted_features(protocol: dict[str, Any]) -> dict[str, Any]:
    lists = ("reader_features", "writer_features")
    return {k: sorted(v) if k in lists and v is not None else v for k, v in protocol.items()}
