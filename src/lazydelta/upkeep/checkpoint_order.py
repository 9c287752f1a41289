"""Sorting the adds of a checkpoint in bounded memory, so that it can be skipped.

Files of one partition come together, within it those with near values of the leading column; then
a row group's own statistics rule most of it out for a selective plan. The order changes nothing
that a reader may rely upon, so a key is as good as it is cheap: of texts the first bytes count.

Adds are gathered into runs, each sorted and, if there is more than one, spilled to a temporary
file; only their keys stay in memory. The merge asks all keys at once which rows come next. Since a
run is sorted, those of one run lie together, so every file is read once, from front to back.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from lazydelta._arrow import from_numpy, integers, text
from lazydelta.scan import nulls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["SortedAdds", "sort_number"]

Columns = dict[str, pa.Array]

_RUN_ROWS = 28_672
"""Less than a batch of a large checkpoint has, so that each becomes a run without being copied."""
_SPILLED_ROWS = 2048
_LEAST = np.iinfo(np.int64).min
_PREFIX = 8


class SortedAdds:
    """Takes adds in any order and gives them back sorted; to be closed.

    Args:
        kinds: The type of every column there may be.
    """

    def __init__(self, kinds: Mapping[str, pa.DataType]) -> None:
        self._kinds = kinds
        self._partitions = _Partitions()
        self._waiting: list[_Waiting] = []
        self._rows_waiting = 0
        self._runs: list[_Run] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove temporary files."""
        for run in self._runs:
            run.close()
        if self._directory is not None:
            self._directory.cleanup()

    def append(
        self,
        adds: Columns,
        partitions: Sequence[pa.Array],
        values: Sequence[pa.Array | None],
        live: np.ndarray | None = None,
    ) -> None:
        """Take adds.

        Args:
            adds: Their columns; what is missing is null.
            partitions: Their partition values, typed, one array for each column.
            values: Their least values of the leading columns; None where nothing is known.
            live: Which of them to take; None is all. Sorting copies them anyway, so it costs
                nothing to leave the others out here.
        """
        rows = len(adds["path"])
        chosen = np.arange(rows) if live is None else np.flatnonzero(live)
        codes = self._partitions.codes(partitions, rows)[chosen]
        numbers = [
            np.full(len(chosen), _LEAST) if value is None else sort_number(value)[chosen]
            for value in values
        ]
        self._waiting.append(_Waiting(adds, chosen, codes, numbers))
        self._rows_waiting += len(chosen)
        if self._rows_waiting >= _RUN_ROWS:
            self._end_run(spill=True)

    def chunks(self, rows: int) -> Iterator[Columns]:
        """Yield all adds in order, so many at a time, the last perhaps fewer."""
        if self._waiting:
            self._end_run(spill=bool(self._runs))
        if not self._runs:
            return
        ranks = self._partitions.ranks()
        keys = [ranks[np.concatenate([run.codes for run in self._runs])]]
        keys += [
            np.concatenate([run.numbers[at] for run in self._runs])
            for at in range(len(self._runs[0].numbers))
        ]
        order = np.lexsort(keys[::-1])
        starts = np.cumsum([0, *(len(run.codes) for run in self._runs)])
        for run in self._runs:
            run.forget_keys()
        for start in range(0, len(order), rows):
            chosen = order[start : start + rows]
            yield self._merged(chosen, np.searchsorted(starts, chosen, side="right") - 1)

    def _merged(self, chosen: np.ndarray, run_of: np.ndarray) -> Columns:
        counts = np.bincount(run_of, minlength=len(self._runs))
        pieces = [p for run, n in zip(self._runs, counts, strict=True) if n for p in run.next(n)]
        place = np.empty(len(chosen), np.int64)
        place[np.argsort(chosen)] = np.arange(len(chosen))
        is_in_order = bool((np.diff(place) > 0).all())
        return {
            name: _joined(pieces, name, kind, None if is_in_order else place)
            for name, kind in self._kinds.items()
            if any(name in piece for piece in pieces)
        }

    def _end_run(self, *, spill: bool) -> None:
        ranks = self._partitions.ranks()
        codes = np.concatenate([part.codes for part in self._waiting])
        numbers = [
            np.concatenate([part.numbers[at] for part in self._waiting])
            for at in range(len(self._waiting[0].numbers))
        ]
        pieces = [part.adds for part in self._waiting]
        starts = np.cumsum([0, *(len(piece["path"]) for piece in pieces)])
        places = [part.chosen + at for part, at in zip(self._waiting, starts[:-1], strict=True)]
        self._waiting, self._rows_waiting = [], 0
        order = np.lexsort([*numbers[::-1], ranks[codes]])
        sorted_places = np.concatenate(places)[order]
        columns = {
            name: _joined(pieces, name, kind, sorted_places)
            for name, kind in self._kinds.items()
            if any(name in piece for piece in pieces)
        }
        run = _Run(codes[order], [number[order] for number in numbers], columns)
        self._runs.append(run)
        if spill:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-checkpoint-")
            run.spill(f"{self._directory.name}/{len(self._runs)}")


@dataclass(slots=True)
class _Waiting:
    adds: Columns
    chosen: np.ndarray
    codes: np.ndarray
    numbers: list[np.ndarray]


@dataclass(slots=True)
class _Run:
    """Sorted adds: in memory, or in a file that is read from front to back."""

    codes: np.ndarray
    numbers: list[np.ndarray]
    columns: Columns
    _reader: Any = None
    _source: Any = None
    _batch: int = 0
    _at: int = 0

    def spill(self, path: str) -> None:
        schema = pa.schema([(name, column.type) for name, column in self.columns.items()])
        batch = pa.RecordBatch.from_arrays(list(self.columns.values()), schema=schema)
        # Not compressed: that would take longer than all the rest of the sorting.
        with pa.OSFile(path, "w") as sink, pa.ipc.new_file(sink, schema) as file:
            for start in range(0, batch.num_rows, _SPILLED_ROWS):
                file.write_batch(batch.slice(start, _SPILLED_ROWS))
        self.columns = {}
        self._source = pa.OSFile(path)
        self._reader = pa.ipc.open_file(self._source)

    def next(self, rows: int) -> list[Columns]:
        """Return the next rows, in as many pieces as they lie in."""
        pieces = []
        while rows:
            if self._reader is not None and not self.columns:
                batch = self._reader.get_batch(self._batch)
                self.columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                self._batch, self._at = self._batch + 1, 0
            left = len(self.columns["path"]) - self._at
            taken = min(rows, left)
            pieces.append({n: c.slice(self._at, taken) for n, c in self.columns.items()})
            self._at, rows = self._at + taken, rows - taken
            if taken == left:
                self.columns = {}
        return pieces

    def forget_keys(self) -> None:
        self.codes, self.numbers = self.codes[:0], []

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


@dataclass(slots=True)
class _Partitions:
    """The combinations of partition values met so far, each with a number."""

    known: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def codes(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """Return the number of each row's combination."""
        if not columns:
            self.known.setdefault((), 0)
            return np.zeros(rows, np.int32)
        combined, dictionaries = np.zeros(rows, np.int64), []
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            dictionaries.append(_plain(encoded.dictionary))
            combined = combined * len(encoded.dictionary) + integers(encoded.indices)
        distinct, codes = np.unique(combined, return_inverse=True)
        numbers = []
        for code in distinct.tolist():
            values = []
            for dictionary in reversed(dictionaries):
                code, at = divmod(code, len(dictionary))  # noqa: PLW2901 - taken apart
                values.append(dictionary[at])
            numbers.append(self.known.setdefault(tuple(reversed(values)), len(self.known)))
        return np.array(numbers, np.int32)[codes]

    def ranks(self) -> np.ndarray:
        """Return the place of each number in the order of the values, null first."""
        ordered = sorted(self.known, key=lambda values: [(v is not None, v) for v in values])
        ranks = np.empty(len(ordered), np.int32)
        for rank, values in enumerate(ordered):
            ranks[self.known[values]] = rank
        return ranks


def sort_number(values: pa.Array) -> np.ndarray:
    """Return numbers in the order of the values, null first; texts by their first bytes.

    >>> sort_number(pa.array(["b", None, "a"])).argsort().tolist()
    [1, 2, 0]
    >>> sort_number(pa.array([0.5, -2.0, None])).argsort().tolist()
    [2, 1, 0]
    """
    kind = values.type
    if values.null_count == len(values):
        return np.full(len(values), _LEAST)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        numbers = _prefixes(values)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        bits = integers(values.cast(pa.float64()).view(pa.int64()))
        numbers = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
    else:
        whole = values.cast(pa.int32()) if pa.types.is_date32(kind) else values
        numbers = integers(whole.cast(pa.int64()))
    # What stands in the place of a null means nothing.
    return np.where(_is_null(values), _LEAST, numbers) if values.null_count else numbers


def _prefixes(values: pa.Array) -> np.ndarray:
    short = pc.binary_slice(values.cast(pa.binary()), 0, _PREFIX)
    if short.null_count:
        short = pc.coalesce(short, text("").cast(pa.binary()))
    padded = pc.ascii_rpad(short.cast(pa.string(), safe=False), _PREFIX, "\0")
    words = np.frombuffer(padded.buffers()[2] or b"", ">u8", len(padded)).astype(np.uint64)
    return (words ^ np.uint64(1 << 63)).view(np.int64)


def _is_null(values: pa.Array) -> np.ndarray:
    return integers(values.is_null().cast(pa.int8())).astype(np.bool_)


def _plain(values: pa.Array) -> list[Any]:
    """Return values that compare in their order; moments as numbers, which have no end."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        values = values.view(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    return values.to_pylist()


def _joined(
    pieces: Sequence[Columns], name: str, kind: pa.DataType, order: np.ndarray | None
) -> pa.Array:
    parts = [p[name] if name in p else nulls(len(p["path"]), kind) for p in pieces]
    whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return whole if order is None else whole.take(from_numpy(order))
