"""Log compaction: the commits of a range of versions, reconciled, in one file beside them.

A reader may use it in place of the commits, so it keeps all that affects older versions: tombstones
of any age, removed domains, the newest of each transaction. The commits stay. Memory is
proportional to the range.
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
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.checkpoint_schema import checkpoint_interval
from lazydelta.errors import (
    ConfigError,
    LogGapError,
    ObjectExistsError,
    SchemaError,
    UnsupportedActionError,
)
from lazydelta.formats import normalized_lines, split_lines
from lazydelta.log import CommitReader, LogFileKind, compacted_path, list_log
from lazydelta.protocol.features import unsupported_error, unwritable_features
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
"""The table property with the number of commits between log compactions."""

_KEY_FIELDS = {"protocol": "", "metaData": "", "txn": "appId", "domainMetadata": "domain"}
"""The field that identifies an action among those of its kind; empty if the newest replaces all."""
_DROPPED = ("commitInfo", "cdc")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """A log compaction; not new if it existed, or there were no actions to write."""

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
    """Compact the newest commits if the commit makes it due; a post-commit hook."""
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
        store: The table's store.
        config: Engine settings.
        first: The oldest version of the range.
        last: The newest version, greater than `first`.

    Raises:
        ConfigError: The range has fewer than two versions.
        LogGapError: A commit of the range is missing.
        UnsupportedFeatureError: The table has a writer feature that lazydelta does not support.
    """
    started = time.perf_counter()
    if not 0 <= first < last:
        raise ConfigError("range", f"{first} to {last} are not at least two versions")
    snapshot = load_snapshot(store, config, version=last)
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(store.root, features, "write")
    actions = _reconciled(store, config, _commits(store, first, last))
    data, path = b"".join(actions), compacted_path(first, last)
    failpoint("compaction-prepared")
    is_new = bool(actions)  # many readers refuse an empty log file
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
    """Return the lines of a compaction; those of file actions are copied, so no field is lost."""
    reader = CommitReader(store, config)
    seen = SeenFiles(
        memory_limit=config.remove_set_memory_limit,
        capacity=tuning.COMPACTED_FILES,
        false_positive_rate=tuning.COMPACTION_FALSE_POSITIVE_RATE,
    )
    reconciler = Reconciler(seen, PathResolver(store.root, config.allowed_roots).keys)
    non_file_lines: dict[tuple[str, str], bytes] = {}
    file_lines: list[bytes] = []
    try:
        for commit in reversed(commits):
            for kind, actions in reader.find(commit, list(_KEY_FIELDS)).items():
                for action in actions:
                    key = kind, str(action.get(_KEY_FIELDS[kind], ""))
                    non_file_lines.setdefault(key, orjson.dumps({kind: action}) + b"\n")
            file_lines += _winning_lines(store, commit, reader, reconciler)
    finally:
        seen.close()
    return [*non_file_lines.values(), *file_lines]


def _winning_lines(
    store: Store, commit: LogFile, reader: CommitReader, reconciler: Reconciler
) -> list[bytes]:
    """Return the file actions of a commit that no newer commit replaced.

    Within a commit, an add wins over a remove of the same file.
    """
    key_arrays: list[pa.Array] = []
    row_arrays: list[np.ndarray] = []
    remove_masks: list[np.ndarray] = []
    start = 0
    for batch in reader.batches([commit]):
        _refuse_unknown_actions(batch.others, store, commit)
        has_remove, has_add = to_mask(batch.remove.is_valid()), to_mask(batch.add.is_valid())
        rows = np.flatnonzero(has_remove | has_add)
        key_arrays.append(reconciler.keys(batch))
        row_arrays.append(rows + start)
        remove_masks.append(has_remove[rows])
        start += len(has_remove)
    keys = pa.concat_arrays(key_arrays)
    rows, is_remove = np.concatenate(row_arrays), np.concatenate(remove_masks)
    adds_first = np.argsort(is_remove, kind="stable")
    codes = to_numpy(keys.dictionary_encode().indices)[adds_first]
    winners = adds_first[np.unique(codes, return_index=True)[1]]
    unseen = ~reconciler.seen.contains(keys.take(from_numpy(winners)))
    winners = np.sort(winners[unseen])
    reconciler.seen.add(keys.take(from_numpy(winners)))
    lines = split_lines(normalized_lines(bytes(store.read(commit.path))))
    winning: list[bytes] = lines.take(from_numpy(rows[winners])).to_pylist()
    return winning


def _refuse_unknown_actions(others: Sequence[Any], store: Store, commit: LogFile) -> None:
    for other in others:
        if other.kind not in _KEY_FIELDS and other.kind not in _DROPPED:
            reason = "a compaction could lose, because lazydelta does not know what it replaces"
            cure = "Compact the versions before it, or those after it."
            raise UnsupportedActionError(store.root, commit.version, other.kind, reason, cure)


def _interval(configuration: Any) -> int | None:
    value = configuration.get(COMPACTION_INTERVAL)
    if value is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,8}", value) or int(value) < 2:
        raise SchemaError(
            f"{COMPACTION_INTERVAL} cannot be {value!r}; set it to an integer of at least 2"
        )
    return int(value)
