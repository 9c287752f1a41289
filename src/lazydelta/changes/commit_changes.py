"""File actions of a commit with a data change: change data files, adds and removes, as Arrow.

Decodes commits in bulk, without statistics. If a commit has change data files (`cdc` actions), its
adds and removes are ignored, as the protocol requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, to_mask, true_mask
from lazydelta._parallel import ordered_map
from lazydelta.changes import tuning
from lazydelta.errors import LogCorruptError, ObjectNotFoundError
from lazydelta.formats import (
    BadLineError,
    JsonLimits,
    decode_lines,
    normalized_lines,
    object_mask,
    parse_object,
    split_lines,
)
from lazydelta.protocol.schemas import ADD
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.log import LogFile
    from lazydelta.store import Store

__all__ = ["CommitChanges", "read_commits"]

_FILE_FIELDS = ("path", "partitionValues", "size")
_CHANGE_FILE = pa.struct([ADD.field(name) for name in _FILE_FIELDS])
_DATA_FILE = pa.struct(
    [ADD.field(name) for name in (*_FILE_FIELDS, "dataChange", "deletionVector")]
)
_PRESENT = pa.struct([("\0", pa.null())])
_OTHER_ACTIONS = ("protocol", "metaData", "commitInfo")
_LINES = pa.schema(
    [
        ("add", _DATA_FILE),
        ("remove", _DATA_FILE),
        ("cdc", _CHANGE_FILE),
        *((name, _PRESENT) for name in _OTHER_ACTIONS),
    ]
)
_UNIQUE_KEYS = (
    *("add", "remove", "cdc", "path", "partitionValues", "size"),
    *("dataChange", "deletionVector", "pathOrInlineDv"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """The file actions of one commit with a data change, and its other actions.

    Columns of the tables: `path`, `partitionValues` and `size`; `adds` and `removes` also have
    `deletionVector`. With change data files, `adds` and `removes` are empty unless `every_file` was
    requested.
    """

    file: LogFile
    adds: pa.Table
    removes: pa.Table
    change_files: pa.Table
    other_actions: dict[str, list[dict[str, Any]]]
    """The `protocol`, `metaData` and `commitInfo` actions."""

    @property
    def version(self) -> int:
        """The version of the commit."""
        return self.file.version


def read_commits(
    store: Store, config: Config, commits: Sequence[LogFile], *, every_file: bool = False
) -> Iterator[CommitChanges]:
    """Yield the changes of each commit, in the given order; small remote commits are prefetched.

    Memory holds the file actions of one commit (without statistics) and the prefetched commits.

    Args:
        store: The table's store.
        config: Engine settings.
        commits: The commits to read.
        every_file: Whether to return adds and removes of commits with change data files as well.

    Raises:
        LogCorruptError: A commit is missing, empty or malformed.
    """
    reader = _Reader(store, config, every_file=every_file)
    width = 1 if is_local(store) else config.commit_read_parallelism
    for file, data in ordered_map(reader.fetch, commits, width=width):
        yield reader.changes(file, data)


class _Reader:
    """Reads the commits of one table."""

    def __init__(self, store: Store, config: Config, *, every_file: bool) -> None:
        self._store = store
        self._every_file = every_file
        self._limits = JsonLimits(line_bytes=config.max_line_bytes, depth=config.max_json_depth)

    def fetch(self, file: LogFile) -> tuple[LogFile, bytes | None]:
        """Return the bytes of a small commit; None for one that is streamed later."""
        if file.size > tuning.MAX_PREFETCH_BYTES:
            return file, None
        try:
            return file, bytes(self._store.read(file.path))
        except ObjectNotFoundError as error:
            raise self._corrupt(file, "it was listed but does not exist") from error

    def changes(self, file: LogFile, data: bytes | None) -> CommitChanges:
        """Return the changes of a commit, decoded block by block."""
        file_actions: dict[str, list[pa.RecordBatch]] = {"add": [], "remove": [], "cdc": []}
        other_actions: dict[str, list[dict[str, Any]]] = {name: [] for name in _OTHER_ACTIONS}
        first_line, is_empty = 1, True
        for block in self._blocks(file) if data is None else [data]:
            is_empty = is_empty and (not block or block.isspace())
            terminated = block if block.endswith(b"\n") else block + b"\n"
            lines = split_lines(terminated)
            if not object_mask(lines).all():
                lines = split_lines(normalized_lines(terminated))
            try:
                self._decode(lines, file_actions, other_actions)
            except BadLineError as error:
                raise self._corrupt(file, error.reason, first_line + error.line) from None
            first_line += terminated.count(b"\n")
        if is_empty:
            raise self._corrupt(file, "it is empty")
        if not self._every_file and any(batch.num_rows for batch in file_actions["cdc"]):
            file_actions["add"], file_actions["remove"] = [], []
        return CommitChanges(
            file=file,
            adds=_table(file_actions["add"], _DATA_FILE),
            removes=_table(file_actions["remove"], _DATA_FILE),
            change_files=_table(file_actions["cdc"], _CHANGE_FILE),
            other_actions=other_actions,
        )

    def _decode(
        self,
        lines: pa.Array,
        file_actions: dict[str, list[pa.RecordBatch]],
        other_actions: dict[str, list[dict[str, Any]]],
    ) -> None:
        rows = decode_lines(lines, _LINES, unique_keys=_UNIQUE_KEYS, limits=self._limits)
        for kind, batches in file_actions.items():
            actions = rows.column(kind)
            if actions.null_count < len(actions):
                batches.append(_with_data_change(kind, actions))
        for kind, parsed in other_actions.items():
            actions = rows.column(kind)
            if actions.null_count == len(actions):
                continue
            for index in np.flatnonzero(to_mask(actions.is_valid())).tolist():
                try:
                    parsed.append(parse_object(lines[index].as_py())[kind])
                except BadLineError as error:
                    raise BadLineError(index, error.reason) from None

    def _blocks(self, file: LogFile) -> Iterator[bytes]:
        """Yield a large commit in blocks of complete lines."""
        rest = b""
        with self._store.open_input(file.path, size=file.size) as source:
            while chunk := source.read(tuning.BLOCK_BYTES):
                end = chunk.rfind(b"\n") + 1
                lines, rest = (rest + chunk[:end], chunk[end:]) if end else (b"", rest + chunk)
                if len(rest) > self._limits.line_bytes:
                    raise self._corrupt(file, "a line is too long")
                if lines:
                    yield lines
        if rest:
            yield rest

    def _corrupt(self, file: LogFile, reason: str, line: int | None = None) -> LogCorruptError:
        return LogCorruptError(self._store.root, file.path, reason, file.version, line)


def _with_data_change(kind: str, actions: pa.StructArray) -> pa.RecordBatch:
    """Return the actions with a data change; a missing `dataChange` counts as true."""
    present = to_mask(actions.is_valid())
    missing = present & to_mask(actions.field("path").is_null())
    if missing.any():
        raise BadLineError(int(np.flatnonzero(missing)[0]), f"{kind} has no path")
    keep = (
        present if kind == "cdc" else present & ~true_mask(pc.invert(actions.field("dataChange")))
    )
    return pa.RecordBatch.from_struct_array(actions.filter(from_mask(keep)))


def _table(batches: Sequence[pa.RecordBatch], kind: pa.StructType) -> pa.Table:
    return pa.Table.from_batches(batches, pa.schema(list(kind))).combine_chunks()
