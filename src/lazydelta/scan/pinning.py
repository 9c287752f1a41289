"""A pinned snapshot as a small JSON: enough to open exactly the same version again, anywhere.

Carries the address (without secrets), the version, how it was chosen, the protocol's four fields
and two hashes: of version, protocol and metadata, and of the bytes of the version's commit. They
cost one read of that commit, whatever the number of files. Checkpoints, compactions and log
cleanup change neither; a table that was replaced or whose commit was rewritten changes one.
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
    """SHA-256 of version, protocol and metadata."""
    commit_hash: str
    """SHA-256 of the commit's bytes; empty if log cleanup had removed the commit."""
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


def pin(snapshot: SnapshotState, *, timestamp: datetime | str | None = None) -> Bundle:
    """Return a bundle for a snapshot; costs one read of the version's commit.

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
        snapshot_hash=_snapshot_hash(snapshot),
        commit_hash=_commit_hash(snapshot),
    )


def check_bundle(bundle: Bundle, snapshot: SnapshotState) -> None:
    """Raise `BundleMismatchError` unless the snapshot is what the bundle pinned.

    A commit that log cleanup removed, before or since, is not compared.
    """
    found = _snapshot_hash(snapshot), _commit_hash(snapshot)
    for was, now in zip((bundle.snapshot_hash, bundle.commit_hash), found, strict=True):
        if was and now and was != now:
            raise BundleMismatchError(snapshot.store.root, snapshot.version, was, now)


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
