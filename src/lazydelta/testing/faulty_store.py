"""Fault injection for stores: failures before or after the effect, stale and repeated listings.

Wraps any `Store`. Faults are planned (`Fault`) or drawn from a seed (`RandomFaults`), so that a
failing run can be reproduced. It only waits through its `sleep` argument.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from lazydelta.errors import ObjectExistsError, TransientStoreError
from lazydelta.store import list_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.store import Buffer, ObjectMeta, Store

__all__ = ["Fault", "FaultyStore", "RandomFaults"]

Operation = Literal["write", "read", "list", "head", "delete"]
Kind = Literal["before", "after", "late", "exists", "stale", "twice", "torn", "slow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planned fault.

    Kinds: `before` and `after` raise without and with the effect. `late` raises, and the write
    takes effect before the next call. `exists` reports that the object exists, whether or not it
    does. `stale` omits the last name of a listing, `twice` repeats each page of it. `torn` returns
    half of an object. `slow` only waits.
    """

    operation: Operation
    kind: Kind
    path: str = "*"
    """Glob pattern of the affected paths."""
    nth: int = 1
    """Which of the matching calls fails, counted from 1."""
    seconds: float = 0.0
    """Delay before the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomFaults:
    """Probability of each kind of fault, per call."""

    seed: int
    before: float = 0.1
    after: float = 0.1
    """Writes only."""
    stale: float = 0.0
    twice: float = 0.0
    directory: str = "_delta_log"
    """Only calls below this directory fail."""


@dataclass
class FaultyStore:
    """A store wrapper with planned or random faults."""

    inner: Store
    faults: Sequence[Fault] = ()
    random_faults: RandomFaults | None = None
    sleep: Callable[[float], None] = lambda _: None
    injected: Counter[str] = field(default_factory=Counter)
    """Number of injected faults by kind."""

    def __post_init__(self) -> None:
        self._matched: Counter[int] = Counter()
        self._late: list[tuple[str, bytes, bool]] = []
        self._lock = threading.Lock()
        seed = self.random_faults.seed if self.random_faults else 0
        self._random = random.Random(seed)  # noqa: S311 - reproducible, not secret

    @property
    def root(self) -> str:
        """The root of the wrapped store."""
        return self.inner.root

    @property
    def native_files(self) -> bool:
        """Whether the wrapped store opens files without a request."""
        return bool(getattr(self.inner, "native_files", False))

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """List all directories, with `stale` and `twice` faults."""
        return self._faulty_pages(within, list_tree(self.inner, after=after, within=within))

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """List a directory, with `stale` and `twice` faults."""
        return self._faulty_pages(directory, self.inner.list_from(directory, after=after))

    def _faulty_pages(
        self, directory: str, listed: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        fault = self._begin("list", directory)
        pages = list(listed)
        if fault == "stale" and pages:
            pages[-1] = pages[-1].slice(0, pages[-1].num_rows - 1)
        for page in pages:
            yield page
            if fault == "twice":
                yield page

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time."""
        self._begin("head", path)
        return self.inner.head(path)

    def read(self, path: str) -> Buffer:
        """Read an object, with `torn` faults."""
        fault = self._begin("read", path)
        data = self.inner.read(path)
        return memoryview(data)[: len(memoryview(data)) // 2] if fault == "torn" else data

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read ranges of an object."""
        self._begin("read", path)
        return self.inner.read_ranges(path, ranges)

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open an object; reads of the open file do not fail."""
        self._begin("read", path)
        return self.inner.open_input(path, size=size)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write an object, with `after`, `late` and `exists` faults."""
        fault = self._begin("write", path)
        if fault == "exists":
            raise ObjectExistsError(path, "injected: 409 conflict")
        if fault == "late":
            with self._lock:
                self._late.append((path, bytes(data), overwrite))
            raise _response_lost(path)
        try:
            self.inner.write(path, data, overwrite=overwrite)
        except ObjectExistsError:
            if fault != "after":
                raise
        if fault == "after":
            raise _response_lost(path)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects."""
        self._begin("delete", paths[0] if paths else "")
        self.inner.delete(paths)

    def _begin(self, operation: Operation, path: str) -> Kind | None:
        """Apply late writes, then inject `before` and delays; return the kind of fault, if any."""
        self._apply_late_writes()
        fault = self._planned(operation, path) or self._drawn(operation, path)
        if fault is None:
            return None
        with self._lock:
            self.injected[fault.kind] += 1
        if fault.seconds:
            self.sleep(fault.seconds)
        if fault.kind == "before":
            raise _response_lost(path)
        return fault.kind

    def _apply_late_writes(self) -> None:
        with self._lock:
            late, self._late = self._late, []
        for path, data, overwrite in late:
            with contextlib.suppress(ObjectExistsError):
                self.inner.write(path, data, overwrite=overwrite)

    def _planned(self, operation: Operation, path: str) -> Fault | None:
        due_fault = None
        for number, fault in enumerate(self.faults):
            if fault.operation == operation and fnmatchcase(path, fault.path):
                with self._lock:
                    self._matched[number] += 1
                    due = self._matched[number] == fault.nth
                if due:
                    due_fault = due_fault or fault
        return due_fault

    def _drawn(self, operation: Operation, path: str) -> Fault | None:
        rates = self.random_faults
        if rates is None or not path.startswith(rates.directory):
            return None
        kinds: list[tuple[Kind, float]] = [("before", rates.before)]
        if operation == "write":
            kinds.append(("after", rates.after))
        if operation == "list":
            kinds += [("stale", rates.stale), ("twice", rates.twice)]
        with self._lock:
            draw = self._random.random()
        for kind, rate in kinds:
            if draw < rate:
                return Fault(operation=operation, kind=kind)
            draw -= rate
        return None


def _response_lost(path: str) -> TransientStoreError:
    return TransientStoreError(path, "injected: the response was lost")
