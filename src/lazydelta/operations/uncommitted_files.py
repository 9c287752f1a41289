"""New files of an operation, deleted if no commit can reference them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from lazydelta.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lazydelta.store import Store
    from lazydelta.transaction import Phase, TxnObserver

__all__ = ["UncommittedFiles"]


class UncommittedFiles:
    """Data and change files that are deleted on exit, unless their commit was attempted.

    Pass it as the observer of the commit: after an attempt the files stay, because its outcome
    may be unknown.

    Args:
        store: Where the files are.
        observer: Receives the phases of the commit too.
    """

    def __init__(self, store: Store, observer: TxnObserver | None) -> None:
        self._store = store
        self._observer = observer
        self._paths: set[str] = set()
        self._was_attempted = False

    def add(self, actions: pa.Table) -> pa.Table:
        """Record the files of add or change actions, and return the actions."""
        self.add_paths(map(unquote, actions.column("path").to_pylist()))
        return actions

    def add_paths(self, paths: Iterable[str]) -> None:
        """Record files by their paths in the store."""
        self._paths.update(paths)

    def __call__(self, phase: Phase, version: int, /) -> None:
        """Receive a phase of the commit."""
        self._was_attempted = self._was_attempted or phase == "put"
        if self._observer is not None:
            self._observer(phase, version)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._was_attempted:
            with contextlib.suppress(StoreError):
                self._store.delete(sorted(self._paths))
