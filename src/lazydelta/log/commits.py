"""Read commit files as Arrow batches: fetched in parallel, newest first.

Small commits are decoded together, because starting a decoder costs more than reading ten lines.
A huge commit is streamed in blocks, to bound memory. `replay` decides which files are live.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, to_mask, to_numpy
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
from lazydelta.log import tuning
from lazydelta.protocol import CommitBatch, OtherAction
from lazydelta.protocol.schemas import ADD, REMOVE
from lazydelta.store import is_local
from lazydelta.store.layers import retried_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.log.file_names import LogFile
    from lazydelta.store import Store

__all__ = ["CommitReader"]

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


def _line_schema(remove: pa.DataType) -> pa.Schema:
    return pa.schema([("add", ADD), ("remove", remove), *((name, _PRESENT) for name in _OTHERS)])


ACTIONS = _line_schema(REMOVE)
"""Schema of a line of a commit; actions other than add and remove are decoded as present or not."""

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
    """Reads the commits of one table, and caches the bytes of small ones.

    Args:
        store: The table's store.
        config: Settings of the engine.
        remove: Arrow type of `remove`; readers decode only its identity.
    """

    def __init__(self, store: Store, config: Config, *, remove: pa.DataType = REMOVE) -> None:
        self._store = store
        # A listed commit exists: a store that answers 404 is behind its own listing.
        self._listed = retried_store(store, config, (ObjectNotFoundError,))
        self._config = config
        self._actions = ACTIONS if remove is REMOVE else _line_schema(remove)
        self._limits = JsonLimits(line_bytes=config.max_line_bytes, depth=config.max_json_depth)
        self._cache = _Cache()
        self._validated: set[str] = set()
        # A local read takes less time than starting a thread.
        self._width = 1 if is_local(store) else config.commit_read_parallelism
        self.bytes_read = 0

    def decoding(self, remove: pa.DataType) -> CommitReader:
        """Return a reader with another type of `remove`, which shares the cached bytes."""
        reader = CommitReader(self._store, self._config, remove=remove)
        reader._cache = self._cache
        return reader

    def keep(self, file: LogFile, data: bytes) -> None:
        """Cache a commit that this process has written: it is valid and need not be read."""
        self._validated.add(file.name)
        self._cache.add(file, data)

    def batches(self, newest_first: Iterable[LogFile]) -> Iterator[CommitBatch]:
        """Yield the actions of commits or compacted commits, newest first."""
        window = _Window()
        # Start small: the first file does not wait for the rest of its commit or for others.
        max_bytes, max_commits = tuning.FIRST_BLOCK_BYTES, 1
        for file, data in self._fetched(newest_first):
            blocks = self._streamed(file) if data is None else _blocks(data, max_bytes)
            for block, first_line, is_last in blocks:
                window.add(file, block, first_line)
                # The last block of a split commit is decoded alone: the removes of the whole
                # commit, deferred until then, hide older adds.
                is_whole = is_last and first_line == 1
                if is_whole and window.bytes < max_bytes and len(window.parts) < max_commits:
                    continue
                yield self._decode(window, complete=is_last)
                window = _Window()
                max_bytes = min(4 * max_bytes, tuning.BLOCK_BYTES)
                max_commits = min(4 * max_commits, self._config.reverse_window_commits)
        if window.parts:
            yield self._decode(window, complete=True)

    def removes(self, newest_first: Iterable[LogFile]) -> Iterator[CommitBatch]:
        """Yield the removes of commits, newest first; lines without one are not decoded."""
        window = _Window()
        for file, data in self._fetched(newest_first):
            blocks = self._streamed(file) if data is None else [(data, 1, True)]
            for block, _, _ in blocks:
                if lines := _lines_of(block, ('"remove"', "\\u00")):  # a name may have escapes
                    window.add(file, lines, 1)
                if window.bytes >= tuning.BLOCK_BYTES:
                    yield self._decode_removes(window)
                    window = _Window()
        if window.parts:
            yield self._decode_removes(window)

    def _decode_removes(self, window: _Window) -> CommitBatch:
        try:
            return self._decode(window, complete=True)
        except LogCorruptError as error:  # its line is that of the removes alone
            raise replace(error, line=None) from None

    def find(self, file: LogFile, kinds: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the actions of the given kinds in one commit; other lines are not decoded."""
        actions: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        data = self._read(file) if file.size <= tuning.STREAMED_BYTES else None
        blocks = [(data, 1, True)] if data is not None else self._streamed(file)
        for block, first_line, _ in blocks:
            for number, line in _lines_with_any(block, kinds):
                try:
                    action = parse_object(line)
                except BadLineError as error:
                    raise self._corrupt(file, error.reason, first_line + number) from None
                for kind in kinds:
                    if isinstance(action.get(kind), dict):
                        actions[kind].append(action[kind])
        return actions

    def validate(self, file: LogFile) -> None:
        """Decode a commit or JSON manifest and discard it; of a huge one only the last line.

        Raises:
            LogCorruptError: It is empty, truncated or not JSON actions.
        """
        if file.name in self._validated:
            return
        if file.size > tuning.STREAMED_BYTES:
            self._validate_end(file)
        else:
            for _ in self.batches([file]):
                pass
        self._validated.add(file.name)

    def _validate_end(self, file: LogFile) -> None:
        (end,) = self._store.read_ranges(file.path, [(file.size - tuning.BLOCK_BYTES, file.size)])
        _, newline, line = bytes(end).rstrip().rpartition(b"\n")
        try:
            parse_object(line if newline else b"{}")  # the line may be longer than a block
        except BadLineError as error:
            raise self._corrupt(file, f"its last line: {error.reason}") from None

    def find_each(
        self, files: Iterable[LogFile], kinds: Sequence[str]
    ) -> Iterator[tuple[LogFile, dict[str, list[dict[str, Any]]]]]:
        """Yield `find` of several commits in order, fetching ahead."""
        yield from ordered_map(lambda f: (f, self.find(f, kinds)), files, width=self._width)

    def _fetched(self, files: Iterable[LogFile]) -> Iterator[tuple[LogFile, bytes | None]]:
        """Yield the bytes of each file, or None for one that must be streamed."""

        def fetch(file: LogFile) -> tuple[LogFile, bytes | None]:
            return file, None if file.size > tuning.STREAMED_BYTES else self._read(file)

        return ordered_map(fetch, files, width=self._width)

    def _read(self, file: LogFile) -> bytes:
        cached = self._cache.get(file.name)
        if cached is not None:
            return cached
        try:
            data = bytes(self._listed.read(file.path))
        except ObjectNotFoundError as error:
            raise self._corrupt(file, "it was listed but does not exist") from error
        if not data or data.isspace():
            raise self._corrupt(file, "it is empty")
        self.bytes_read += len(data)
        self._cache.add(file, data)
        return data

    def _streamed(self, file: LogFile) -> Iterator[tuple[bytes, int, bool]]:
        """Yield a huge file in blocks of complete lines: bytes, first line, whether it is last."""
        first_line, rest = 1, b""
        with self._store.open_input(file.path, size=file.size) as source:
            while data := source.read(tuning.BLOCK_BYTES):
                self.bytes_read += len(data)
                end = data.rfind(b"\n") + 1
                block, rest = (rest + data[:end], data[end:]) if end else (b"", rest + data)
                if len(rest) > self._config.max_line_bytes:
                    raise self._corrupt(file, "a line is too long", first_line)
                if block:
                    yield block, first_line, False
                    first_line += block.count(b"\n")
        yield rest, first_line, True

    def _decode(self, window: _Window, *, complete: bool) -> CommitBatch:
        lines = split_lines(b"".join(part for _, part, _ in window.parts))
        if not object_mask(lines).all():
            window.normalize()
            lines = split_lines(b"".join(part for _, part, _ in window.parts))
        counts = np.array([part.count(b"\n") for _, part, _ in window.parts])
        try:
            rows = decode_lines(lines, self._actions, unique_keys=_UNIQUE_KEYS, limits=self._limits)
            kinds = _action_kinds(rows)
        except BadLineError as error:
            which = int(np.searchsorted(np.cumsum(counts), error.line, side="right"))
            file, _, first_line = window.parts[min(which, len(window.parts) - 1)]
            line = first_line + window.original_line(which, error.line - int(counts[:which].sum()))
            raise self._corrupt(file, error.reason, line) from None
        newest = np.array([file.last_version for file, _, _ in window.parts], np.int64)
        versions = np.repeat(newest, counts)
        return CommitBatch(
            add=rows.column("add"),
            remove=rows.column("remove"),
            versions=versions,
            others=_other_actions(kinds, versions),
            commits=sum(first_line == 1 for _, _, first_line in window.parts),
            complete=complete,
        )

    def _corrupt(self, file: LogFile, reason: str, line: int | None = None) -> LogCorruptError:
        return LogCorruptError(self._store.root, file.path, reason, file.version, line)


class _Cache(dict[str, bytes]):
    """Bytes of small commits by name, for a second read."""

    size = 0

    def add(self, file: LogFile, data: bytes) -> None:
        if self.size + len(data) <= tuning.CACHED_BYTES:
            self[file.name] = data
            self.size += len(data)


class _Window:
    """Blocks of commits that are decoded together; each is (file, lines, first line)."""

    def __init__(self) -> None:
        self.parts: list[tuple[LogFile, bytes, int]] = []
        self._original: list[tuple[LogFile, bytes, int]] = []
        self.bytes = 0

    def add(self, file: LogFile, block: bytes, first_line: int) -> None:
        lines = block if block.endswith(b"\n") else block + b"\n"
        self.parts.append((file, lines, first_line))
        self.bytes += len(block)

    def normalize(self) -> None:
        """Drop blank lines and padding; any line that is then not an object is an error."""
        self._original = self.parts
        self.parts = [(file, normalized_lines(part), line) for file, part, line in self.parts]

    def original_line(self, part: int, line: int) -> int:
        """Return the number of a line of a part before `normalize`."""
        if part >= len(self._original):
            return line
        lines = self._original[part][1].split(b"\n")
        return [number for number, content in enumerate(lines) if content.strip()][line]


def _blocks(data: bytes, first_bytes: int) -> Iterator[tuple[bytes, int, bool]]:
    """Yield a commit as one block, or as a short first block and the rest.

    A block costs some milliseconds whatever its size, so only a commit several times larger than
    the first block is split.
    """
    end = data.find(b"\n", first_bytes) + 1 if len(data) > 4 * first_bytes else 0
    if end in (0, len(data)):
        yield data, 1, True
        return
    yield data[:end], 1, False
    yield data[end:], 1 + data.count(b"\n", 0, end), True


def _action_kinds(rows: pa.RecordBatch) -> np.ndarray:
    """Return the index in `ACTIONS` of each row's action; `len(ACTIONS)` for an unknown action."""
    kinds = np.full(rows.num_rows, len(ACTIONS), np.int8)
    counts = np.zeros(rows.num_rows, np.int8)
    for position, column in enumerate(rows.columns):
        if column.null_count == len(column):
            continue
        present = to_mask(column.is_valid())
        counts += present
        kinds[present] = position
    for name in ("add", "remove"):
        actions = rows.column(name)
        paths = actions.field("path")
        if actions.null_count < len(actions) and paths.null_count > actions.null_count:
            invalid = to_mask(actions.is_valid()) & to_mask(paths.is_null())
            raise BadLineError(int(np.flatnonzero(invalid)[0]), f"{name} has no path")
    if counts.max(initial=0) > 1:
        raise BadLineError(int(np.flatnonzero(counts > 1)[0]), "more than one action on a line")
    _check_partition_values(rows.column("add").field("partitionValues"))
    return kinds


def _check_partition_values(values: pa.MapArray) -> None:
    """Refuse duplicate keys: readers would disagree on the value of the partition column."""
    offsets = to_numpy(values.offsets)
    counts = np.diff(offsets)
    if counts.max(initial=0) < 2:
        return
    rows = np.repeat(np.arange(len(counts)), counts)
    keys = values.keys.slice(offsets[0], offsets[-1] - offsets[0]).dictionary_encode()
    pairs = rows * len(keys.dictionary) + to_numpy(keys.indices)
    order = np.argsort(pairs, kind="stable")
    duplicates = order[1:][np.diff(pairs[order]) == 0]
    if len(duplicates):
        first = int(duplicates.min())
        raise BadLineError(int(rows[first]), f"duplicate key {keys[first].as_py()!r}")


def _other_actions(kinds: np.ndarray, versions: np.ndarray) -> tuple[OtherAction, ...]:
    """Return the distinct versions and kinds of actions other than add and remove, newest first."""
    names = [*ACTIONS.names, "unknown"]
    rows = np.flatnonzero(kinds >= 2)
    pairs = dict.fromkeys(zip(versions[rows].tolist(), kinds[rows].tolist(), strict=True))
    return tuple(OtherAction(version, names[kind]) for version, kind in pairs)


def _lines_with_any(data: bytes, kinds: Sequence[str]) -> list[tuple[int, bytes]]:
    """Return number (from 0) and bytes of the lines that may hold such an action.

    JSON allows escapes in the name of an action. Lines with escapes are included, so that all
    readers see the same actions.
    """
    markers = [*(f'"{kind}"'.encode() for kind in kinds), b"\\u00"]
    lines = dict(line for marker in markers for line in _lines_with(data, marker))
    return sorted(lines.items())


def _lines_of(data: bytes, markers: Sequence[str]) -> bytes:
    """Return the lines that contain one of the markers."""
    present = [marker for marker in markers if marker.encode() in data]
    if not present:
        return b""
    lines = split_lines(data if data.endswith(b"\n") else data + b"\n")
    masks = [to_mask(pc.match_substring(lines, marker)) for marker in present]
    return b"".join(lines.filter(from_mask(np.any(masks, axis=0))).to_pylist())


def _lines_with(data: bytes, marker: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 0) and bytes of the lines that contain `marker`."""
    position, counted, number = data.find(marker), 0, 0
    while position >= 0:
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        number += data.count(b"\n", counted, start)
        yield number, data[start:end]
        counted, position = start, data.find(marker, end)
