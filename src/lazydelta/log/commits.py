"""Commit files -> Arrow: fetched in parallel, decoded many at a time, newest first.

Small commits are decoded together, because starting a decoder costs more than reading ten lines;
a huge one is streamed in blocks, so that memory does not follow its size. Reads and checks; which
files are live is `replay`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import bits, integers
from lazydelta._parallel import ordered_map
from lazydelta.errors import LogCorruptError, ObjectNotFoundError
from lazydelta.formats import (
    BadLineError,
    JsonLimits,
    are_objects,
    decode_lines,
    normalized_lines,
    parse_object,
    split_lines,
)
from lazydelta.protocol import ADD, REMOVE, CommitBatch, OtherAction
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.log.file_names import LogFile
    from lazydelta.store import Store

__all__ = ["CommitReader"]

_BLOCK_BYTES = 1 << 20
_FIRST_BLOCK_BYTES = 64 << 10
_STREAMED_BYTES = 16 << 20
_CACHED_BYTES = 16 << 20

_PRESENT = pa.struct([("\0", pa.null())])
_OTHERS = (
    "commitInfo",
    "metaData",
    "protocol",
    "txn",
    "domainMetadata",
    "cdc",
    "sidecar",
    "checkpointMetadata",
)


def _lines(remove: pa.DataType) -> pa.Schema:
    return pa.schema([("add", ADD), ("remove", remove), *((name, _PRESENT) for name in _OTHERS)])


ACTIONS = _lines(REMOVE)
"""A line of a commit; of actions other than add and remove only whether they are there."""

_UNIQUE_KEYS = (
    "add",
    "remove",
    "path",
    "partitionValues",
    "size",
    "stats",
    "modificationTime",
    "deletionVector",
    "pathOrInlineDv",
)


class CommitReader:
    """Reads commits of one table, keeping the bytes of recent small ones for a second look.

    Args:
        store: Where the table is.
        config: Settings of the engine.
        remove: How much of a `remove` is wanted; a reader needs its identity alone.
    """

    def __init__(self, store: Store, config: Config, *, remove: pa.DataType = REMOVE) -> None:
        self._store = store
        self._config = config
        self._actions = ACTIONS if remove is REMOVE else _lines(remove)
        self._limits = JsonLimits(line_bytes=config.max_line_bytes, depth=config.max_json_depth)
        self._cache: dict[str, bytes] = {}
        self._cached_bytes = 0
        self._validated: set[str] = set()
        # A local read is over before a thread would have started.
        self._width = 1 if is_local(store) else config.commit_read_parallelism
        self.bytes_read = 0

    def batches(self, newest_first: Iterable[LogFile]) -> Iterator[CommitBatch]:
        """Yield the actions of commits (or compacted commits), given and yielded newest first."""
        window = _Window()
        # The first file should not wait for the rest of its commit, nor for the second one.
        most_bytes, most_commits = _FIRST_BLOCK_BYTES, 1
        for file, data in self._fetched(newest_first):
            pieces = self._streamed(file) if data is None else _pieces(data, most_bytes)
            for piece, first_line, is_last in pieces:
                window.add(file, piece, first_line)
                # The end of a commit goes alone: its removes, held back so far, hide older adds.
                is_whole = is_last and first_line == 1
                if is_whole and window.bytes < most_bytes and len(window.parts) < most_commits:
                    continue
                yield self._decode(window, complete=is_last)
                window = _Window()
                most_bytes = min(4 * most_bytes, _BLOCK_BYTES)
                most_commits = min(4 * most_commits, self._config.reverse_window_commits)
        if window.parts:
            yield self._decode(window, complete=True)

    def find(self, file: LogFile, kinds: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the actions of the given kinds in one commit; the rest is not decoded."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        whole = self._read(file) if file.size <= _STREAMED_BYTES else None
        pieces = [(whole, 1, True)] if whole is not None else self._streamed(file)
        for piece, first_line, _ in pieces:
            for number, line in _lines_with_any(piece, kinds):
                try:
                    action = parse_object(line)
                except BadLineError as error:
                    raise self._corrupt(file, error.reason, first_line + number) from None
                for kind in kinds:
                    if isinstance(action.get(kind), dict):
                        found[kind].append(action[kind])
        return found

    def validate(self, file: LogFile) -> None:
        """Decode a commit and discard the result; of a huge one only the last line.

        Raises:
            LogCorruptError: It is empty, truncated or not a commit.
        """
        if file.name in self._validated:
            return
        if file.size > _STREAMED_BYTES:
            self._validate_end(file)
        else:
            for _ in self.batches([file]):
                pass
        self._validated.add(file.name)

    def _validate_end(self, file: LogFile) -> None:
        (end,) = self._store.read_ranges(file.path, [(file.size - _BLOCK_BYTES, file.size)])
        _, newline, line = bytes(end).rstrip().rpartition(b"\n")
        try:
            parse_object(line if newline else b"{}")  # the line may be longer than what was read
        except BadLineError as error:
            raise self._corrupt(file, f"its last line: {error.reason}") from None

    def find_each(
        self, files: Iterable[LogFile], kinds: Sequence[str]
    ) -> Iterator[tuple[LogFile, dict[str, list[dict[str, Any]]]]]:
        """Yield `find` for several commits in their order, fetching ahead."""
        yield from ordered_map(lambda f: (f, self.find(f, kinds)), files, width=self._width)

    def _fetched(self, files: Iterable[LogFile]) -> Iterator[tuple[LogFile, bytes | None]]:
        """Yield the bytes of each file, or None for one that is better streamed."""

        def fetch(file: LogFile) -> tuple[LogFile, bytes | None]:
            return file, None if file.size > _STREAMED_BYTES else self._read(file)

        return ordered_map(fetch, files, width=self._width)

    def _read(self, file: LogFile) -> bytes:
        known = self._cache.get(file.name)
        if known is not None:
            return known
        try:
            data = bytes(self._store.read(file.path))
        except ObjectNotFoundError as error:
            raise self._corrupt(file, "it was listed but is not there") from error
        if not data or data.isspace():
            raise self._corrupt(file, "it is empty")
        self.bytes_read += len(data)
        if self._cached_bytes + len(data) <= _CACHED_BYTES:
            self._cache[file.name] = data
            self._cached_bytes += len(data)
        return data

    def _streamed(self, file: LogFile) -> Iterator[tuple[bytes, int, bool]]:
        """Yield a huge file in pieces of whole lines: bytes, first line, whether it is the last."""
        first_line, rest = 1, b""
        with self._store.open_input(file.path, size=file.size) as source:
            while piece := source.read(_BLOCK_BYTES):
                self.bytes_read += len(piece)
                end = piece.rfind(b"\n") + 1
                whole, rest = (rest + piece[:end], piece[end:]) if end else (b"", rest + piece)
                if len(rest) > self._config.max_line_bytes:
                    raise self._corrupt(file, "a line is too long", first_line)
                if whole:
                    yield whole, first_line, False
                    first_line += whole.count(b"\n")
        yield rest, first_line, True

    def _decode(self, window: _Window, *, complete: bool) -> CommitBatch:
        lines = split_lines(b"".join(part for _, part, _ in window.parts))
        if not are_objects(lines).all():
            window.tidy()
            lines = split_lines(b"".join(part for _, part, _ in window.parts))
        counts = np.array([part.count(b"\n") for _, part, _ in window.parts])
        try:
            rows = decode_lines(lines, self._actions, unique_keys=_UNIQUE_KEYS, limits=self._limits)
            kinds = _kind_of_each_row(rows)
        except BadLineError as error:
            which = int(np.searchsorted(np.cumsum(counts), error.line, side="right"))
            file, _, first_line = window.parts[min(which, len(window.parts) - 1)]
            line = first_line + window.line_of(which, error.line - int(counts[:which].sum()))
            raise self._corrupt(file, error.reason, line) from None
        newest = np.array([file.last_version for file, _, _ in window.parts], np.int64)
        versions = np.repeat(newest, counts)
        return CommitBatch(
            add=rows.column("add"),
            remove=rows.column("remove"),
            versions=versions,
            others=_others(kinds, versions),
            commits=sum(first_line == 1 for _, _, first_line in window.parts),
            complete=complete,
        )

    def _corrupt(self, file: LogFile, reason: str, line: int | None = None) -> LogCorruptError:
        return LogCorruptError(self._store.root, file.path, reason, file.version, line)


class _Window:
    """Pieces of commits that are decoded together; each is (file, lines, first line)."""

    def __init__(self) -> None:
        self.parts: list[tuple[LogFile, bytes, int]] = []
        self._untidy: list[tuple[LogFile, bytes, int]] = []
        self.bytes = 0

    def add(self, file: LogFile, piece: bytes, first_line: int) -> None:
        whole = piece if piece.endswith(b"\n") else piece + b"\n"
        self.parts.append((file, whole, first_line))
        self.bytes += len(piece)

    def tidy(self) -> None:
        """Drop blank lines and padding; what is then no object is wrong."""
        self._untidy = self.parts
        self.parts = [(file, normalized_lines(part), line) for file, part, line in self.parts]

    def line_of(self, part: int, line: int) -> int:
        """Return where a line of a part was before blank ones were dropped."""
        if part >= len(self._untidy):
            return line
        lines = self._untidy[part][1].split(b"\n")
        return [number for number, text in enumerate(lines) if text.strip()][line]


def _pieces(data: bytes, first_bytes: int) -> Iterator[tuple[bytes, int, bool]]:
    """Yield a commit as one piece, or a short first one and the rest.

    Each piece costs some milliseconds however short it is, so a commit must be several times as
    long for its first files not to wait for the others.
    """
    end = data.find(b"\n", first_bytes) + 1 if len(data) > 4 * first_bytes else 0
    if end in (0, len(data)):
        yield data, 1, True
        return
    yield data[:end], 1, False
    yield data[end:], 1 + data.count(b"\n", 0, end), True


def _kind_of_each_row(rows: pa.RecordBatch) -> np.ndarray:
    """Return the position in `ACTIONS` of each row's action, and one past it for none of them."""
    kinds = np.full(rows.num_rows, len(ACTIONS), np.int8)
    taken = np.zeros(rows.num_rows, np.int8)
    for position, column in enumerate(rows.columns):
        if column.null_count == len(column):
            continue
        present = bits(column.is_valid())
        taken += present
        kinds[present] = position
    for name in ("add", "remove"):
        actions = rows.column(name)
        paths = actions.field("path")
        if actions.null_count < len(actions) and paths.null_count > actions.null_count:
            bad = bits(actions.is_valid()) & bits(paths.is_null())
            raise BadLineError(int(np.flatnonzero(bad)[0]), f"{name} has no path")
    if taken.max(initial=0) > 1:
        raise BadLineError(int(np.flatnonzero(taken > 1)[0]), "more than one action on a line")
    _check_partition_values(rows.column("add").field("partitionValues"))
    return kinds


def _check_partition_values(values: pa.MapArray) -> None:
    """Refuse a partition column with two values: which one counts, every reader would guess."""
    offsets = integers(values.offsets)
    counts = np.diff(offsets)
    if counts.max(initial=0) < 2:
        return
    rows = np.repeat(np.arange(len(counts)), counts)
    keys = values.keys.slice(offsets[0], offsets[-1] - offsets[0]).dictionary_encode()
    pairs = rows * len(keys.dictionary) + integers(keys.indices)
    order = np.argsort(pairs, kind="stable")
    again = order[1:][np.diff(pairs[order]) == 0]
    if len(again):
        at = int(again.min())
        raise BadLineError(int(rows[at]), f"duplicate key {keys[at].as_py()!r}")


def _others(kinds: np.ndarray, versions: np.ndarray) -> tuple[OtherAction, ...]:
    """Return each pair of version and kind that occurs besides add and remove, newest first."""
    names = [*ACTIONS.names, "unknown"]
    rows = np.flatnonzero(kinds >= 2)
    pairs = dict.fromkeys(zip(versions[rows].tolist(), kinds[rows].tolist(), strict=True))
    return tuple(OtherAction(version, names[kind]) for version, kind in pairs)


def _lines_with_any(data: bytes, kinds: Sequence[str]) -> list[tuple[int, bytes]]:
    """Return number (from 0) and text of the lines that may hold such an action.

    The name of an action may be written with escapes, which no sane writer does: then it is
    looked at too, so that no two readers see different actions.
    """
    markers = [*(f'"{kind}"'.encode() for kind in kinds), b"\\u00"]
    found = dict(line for marker in markers for line in _lines_with(data, marker))
    return sorted(found.items())


def _lines_with(data: bytes, marker: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 0) and text of the lines that contain `marker`."""
    position, seen, number = data.find(marker), 0, 0
    while position >= 0:
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        number += data.count(b"\n", seen, start)
        yield number, data[start:end]
        seen, position = start, data.find(marker, end)
