"""What one commit changed, as the log has it: its change files, adds and removes, as Arrow.

Decodes whole commits in bulk, without statistics, and keeps only actions that changed data; a
commit that writes change files is told by those alone. Which rows that means is `changes.change_plan`'s
business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, to_mask, true_mask
from lazydelta._parallel import ordered_map
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

_BLOCK_BYTES = 8 << 20
_AHEAD_BYTES = 1 << 20  # larger commits are read when their turn comes

_FILE_FIELDS = ("path", "partitionValues", "size")
_CHANGE_FILE = pa.struct([ADD.field(name) for name in _FILE_FIELDS])
_DATA_FILE = pa.struct(
    [ADD.field(name) for name in (*_FILE_FIELDS, "dataChange", "deletionVector")]
)
_PRESENT = pa.struct([("\0", pa.null())])
_FACTS = ("protocol", "metaData", "commitInfo")
_LINES = pa.schema(
    [
        ("add", _DATA_FILE),
        ("remove", _DATA_FILE),
        ("cdc", _CHANGE_FILE),
        *((name, _PRESENT) for name in _FACTS),
    ]
)
_UNIQUE_KEYS = (
    *("add", "remove", "cdc", "path", "partitionValues", "size"),
    *("dataChange", "deletionVector", "pathOrInlineDv"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """The actions of one commit that tell what changed.

    Columns of the tables: `path`, `partitionValues`, `size`, and, but for `change_files`,
    `deletionVector`. Where there are change files, `adds` and `removes` say nothing more and are
    empty, unless every file was asked for.
    """

    file: LogFile
    adds: pa.Table
    removes: pa.Table
    change_files: pa.Table
    facts: dict[str, list[dict[str, Any]]]
    """The `protocol`, `metaData` and `commitInfo` actions."""

    @property
    def version(self) -> int:
        """The version that the commit made."""
        return self.file.version


def read_commits(
    store: Store, config: Config, commits: Sequence[LogFile], *, every_file: bool = False
) -> Iterator[CommitChanges]:
    """Yield what each commit changed, in the order given; remote ones are fetched ahead.

    Memory holds the file actions of one commit (without statistics), and small commits to come.

    Args:
        store: Where the table is.
        config: Settings of the engine.
        commits: What to read.
        every_file: Whether adds and removes are wanted also where change files tell all.

    Raises:
        LogCorruptError: A commit is missing, empty or not what a commit should be.
    """
    reader = _Reader(store, config, every_file=every_file)
    width = 1 if is_local(store) else config.commit_read_parallelism
    for file, data in ordered_map(reader.fetched, commits, width=width):
        yield reader.changes(file, data)


class _Reader:
    """Reads the commits of one table."""

    def __init__(self, store: Store, config: Config, *, every_file: bool) -> None:
        self._store = store
        self._every_file = every_file
        self._limits = JsonLimits(line_bytes=config.max_line_bytes, depth=config.max_json_depth)

    def fetched(self, file: LogFile) -> tuple[LogFile, bytes | None]:
        """Return the bytes of a commit that is small enough to wait; else None."""
        if file.size > _AHEAD_BYTES:
            return file, None
        try:
            return file, bytes(self._store.read(file.path))
        except ObjectNotFoundError as error:
            raise self._corrupt(file, "it was listed but is not there") from error

    def changes(self, file: LogFile, data: bytes | None) -> CommitChanges:
        """Return what a commit changed, decoded block by block."""
        found: dict[str, list[pa.RecordBatch]] = {"add": [], "remove": [], "cdc": []}
        facts: dict[str, list[dict[str, Any]]] = {name: [] for name in _FACTS}
        first_line, is_empty = 1, True
        for block in self._blocks(file) if data is None else [data]:
            is_empty = is_empty and (not block or block.isspace())
            whole = block if block.endswith(b"\n") else block + b"\n"
            lines = split_lines(whole)
            if not object_mask(lines).all():
                lines = split_lines(normalized_lines(whole))
            try:
                self._decode(lines, found, facts)
            except BadLineError as error:
                raise self._corrupt(file, error.reason, first_line + error.line) from None
            first_line += whole.count(b"\n")
        if is_empty:
            raise self._corrupt(file, "it is empty")
        if not self._every_file and any(batch.num_rows for batch in found["cdc"]):
            found["add"], found["remove"] = [], []
        return CommitChanges(
            file=file,
            adds=_table(found["add"], _DATA_FILE),
            removes=_table(found["remove"], _DATA_FILE),
            change_files=_table(found["cdc"], _CHANGE_FILE),
            facts=facts,
        )

    def _decode(
        self,
        lines: pa.Array,
        found: dict[str, list[pa.RecordBatch]],
        facts: dict[str, list[dict[str, Any]]],
    ) -> None:
        rows = decode_lines(lines, _LINES, unique_keys=_UNIQUE_KEYS, limits=self._limits)
        for kind, batches in found.items():
            actions = rows.column(kind)
            if actions.null_count < len(actions):
                batches.append(_changing(kind, actions))
        for kind, known in facts.items():
            actions = rows.column(kind)
            if actions.null_count == len(actions):
                continue
            for at in np.flatnonzero(to_mask(actions.is_valid())).tolist():
                try:
                    known.append(parse_object(lines[at].as_py())[kind])
                except BadLineError as error:
                    raise BadLineError(at, error.reason) from None

    def _blocks(self, file: LogFile) -> Iterator[bytes]:
        """Yield a large commit in blocks of whole lines."""
        rest = b""
        with self._store.open_input(file.path, size=file.size) as source:
            while piece := source.read(_BLOCK_BYTES):
                end = piece.rfind(b"\n") + 1
                whole, rest = (rest + piece[:end], piece[end:]) if end else (b"", rest + piece)
                if len(rest) > self._limits.line_bytes:
                    raise self._corrupt(file, "a line is too long")
                if whole:
                    yield whole
        if rest:
            yield rest

    def _corrupt(self, file: LogFile, reason: str, line: int | None = None) -> LogCorruptError:
        return LogCorruptError(self._store.root, file.path, reason, file.version, line)


def _changing(kind: str, actions: pa.StructArray) -> pa.RecordBatch:
    """Return the actions that changed data; one that does not say is taken to have."""
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
