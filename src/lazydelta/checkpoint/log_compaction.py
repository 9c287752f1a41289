"""Log compaction: the commits of a range of versions, reconciled, in one file beside them.

A reader may take it in the place of the commits, so it keeps what those would have said to the
versions before: tombstones of any age, removed domains, the newest of each transaction. The commits
stay where they are. Memory is that of the range.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from lazydelta._arrow import from_numpy, to_mask, to_numpy
from lazydelta._failpoints import failpoint
from lazydelta.checkpoint.checkpoint_schema import checkpoint_interval
from lazydelta.checkpoint.write_gate import require_writable
from lazydelta.errors import (
    ConfigError,
    LogGapError,
    ObjectExistsError,
    SchemaError,
    UnsupportedActionError,
)
from lazydelta.formats import normalized_lines, split_lines
from lazydelta.log import CommitReader, LogFileKind, compacted_path, list_log
from lazydelta.protocol.paths import PathResolver
from lazydelta.replay import Reconciler, SeenFiles
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.config import Config
    from lazydelta.log import LogFile
    from lazydelta.store import Store
    from lazydelta.transaction import Committed

__all__ = ["COMPACTION_INTERVAL", "CompactionResult", "compact_after", "compact_log"]

COMPACTION_INTERVAL = "lazydelta.logCompactionInterval"
"""The property that asks for a compaction after every so many commits."""

_IDENTITY = {"protocol": "", "metaData": "", "txn": "appId", "domainMetadata": "domain"}
_DROPPED = ("commitInfo", "cdc")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """A compaction that was written; not new if it was there, or nothing was to be said."""

    first_version: int
    last_version: int
    path: str
    is_new: bool
    actions: int
    bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def compact_after(committed: Committed) -> None:
    """Compact the newest commits where the table asks for it; a post-commit hook."""
    version, base = committed.version, committed.base
    metadata = committed.transaction.metadata or (None if base is None else base.metadata)
    interval = None if metadata is None else _interval(metadata.configuration)
    if metadata is None or interval is None or version % interval:
        return
    is_checkpointed = version % checkpoint_interval(metadata.configuration) == 0
    if version and not is_checkpointed:
        compact_log(committed.store, committed.config, version - interval + 1, version)


def compact_log(store: Store, config: Config, first: int, last: int) -> CompactionResult:
    """Write `first.last.compacted.json`.

    Args:
        store: Where the table is.
        config: Settings of the engine.
        first: The oldest version of the range.
        last: The newest, which must be another one.

    Raises:
        ConfigError: The range is empty, or one version alone.
        LogGapError: A commit of the range is not there.
        UnsupportedFeatureError: The table has a feature whose rules for writers we do not follow.
    """
    started = time.perf_counter()
    if not 0 <= first < last:
        raise ConfigError("range", f"{first} to {last} are not at least two versions")
    require_writable(load_snapshot(store, config, version=last))
    actions = _reconciled(store, config, _commits(store, first, last))
    data, path = b"".join(actions), compacted_path(first, last)
    failpoint("compaction-prepared")
    is_new = bool(actions)  # an empty file of the log is no file to many readers
    try:
        if is_new:
            store.write(path, data, overwrite=False)
    except ObjectExistsError:
        is_new = False
    failpoint("compaction-written")
    return CompactionResult(
        first_version=first,
        last_version=last,
        path=path,
        is_new=is_new,
        actions=len(actions),
        bytes=len(data),
        seconds=time.perf_counter() - started,
    )


def _commits(store: Store, first: int, last: int) -> list[LogFile]:
    listed = list_log(store, from_version=first, to_version=last)
    commits = [file for file in listed if file.kind is LogFileKind.COMMIT]
    missing = set(range(first, last + 1)) - {file.version for file in commits}
    if missing:
        raise LogGapError(store.root, tuple(sorted(missing)), last)
    return commits


def _reconciled(store: Store, config: Config, commits: Sequence[LogFile]) -> list[bytes]:
    """Return the lines of a compaction: of files as they were written, so nothing is lost."""
    reader = CommitReader(store, config)
    seen = SeenFiles(
        memory_limit=config.remove_set_memory_limit, capacity=1000, false_positive_rate=0.01
    )
    reconciler = Reconciler(seen, PathResolver(store.root, config.allowed_roots).keys)
    others: dict[tuple[str, str], bytes] = {}
    files: list[bytes] = []
    try:
        for commit in reversed(commits):
            for kind, found in reader.find(commit, list(_IDENTITY)).items():
                for action in found:
                    key = kind, str(action.get(_IDENTITY[kind], ""))
                    others.setdefault(key, orjson.dumps({kind: action}) + b"\n")
            files += _decisive_lines(store, commit, reader, reconciler)
    finally:
        seen.close()
    return [*others.values(), *files]


def _decisive_lines(
    store: Store, commit: LogFile, reader: CommitReader, reconciler: Reconciler
) -> list[bytes]:
    """Return the adds and removes of a commit that no newer one replaced, an add first."""
    keys: list[pa.Array] = []
    rows: list[np.ndarray] = []
    removes: list[np.ndarray] = []
    before = 0
    for batch in reader.batches([commit]):
        _refuse_unknown(batch.others, store, commit)
        gone, added = to_mask(batch.remove.is_valid()), to_mask(batch.add.is_valid())
        here = np.flatnonzero(gone | added)
        keys.append(reconciler.keys(batch))
        rows.append(here + before)
        removes.append(gone[here])
        before += len(gone)
    whole = pa.concat_arrays(keys)
    at, is_remove = np.concatenate(rows), np.concatenate(removes)
    order = np.argsort(is_remove, kind="stable")
    codes = to_numpy(whole.dictionary_encode().indices)[order]
    first = order[np.unique(codes, return_index=True)[1]]
    unseen = ~reconciler.seen.contains(whole.take(from_numpy(first)))
    first = np.sort(first[unseen])
    reconciler.seen.add(whole.take(from_numpy(first)))
    lines = split_lines(normalized_lines(bytes(store.read(commit.path))))
    kept: list[bytes] = lines.take(from_numpy(at[first])).to_pylist()
    return kept


def _refuse_unknown(others: Sequence[Any], store: Store, commit: LogFile) -> None:
    for other in others:
        if other.kind not in _IDENTITY and other.kind not in _DROPPED:
            reason = "a compaction could lose, since lazydelta does not know what it replaces"
            cure = "Compact the versions before it, or those after it."
            raise UnsupportedActionError(store.root, commit.version, other.kind, reason, cure)


def _interval(configuration: Any) -> int | None:
    text = configuration.get(COMPACTION_INTERVAL)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,8}", text) or int(text) < 2:
        raise SchemaError(f"{COMPACTION_INTERVAL} cannot be {text!r}; give a number from 2 on")
    return int(text)
