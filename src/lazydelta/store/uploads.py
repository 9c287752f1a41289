"""Writing an object piece by piece: it appears whole when published, or never.

A store that can do this has `open_output(path)`; for any other the pieces are gathered in memory
and given to its `write`. An output belongs to one thread at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.store.base import Buffer, Store

__all__ = ["BufferedOutput", "Output", "open_output"]


class Output(Protocol):
    """A new object that is being written."""

    @property
    def file(self) -> pa.NativeFile:
        """Where its bytes go, from the first to the last."""

    def publish(self) -> None:
        """Make the object appear, whole and to stay; `ObjectExistsError` if the name is taken."""

    def discard(self) -> None:
        """Leave nothing behind; after `publish`, or a second time, it does nothing."""


def open_output(store: Store, path: str) -> Output:
    """Begin a new object of a store."""
    opened: Callable[[str], Output] | None = getattr(store, "open_output", None)
    if opened is not None:
        return opened(path)
    return BufferedOutput(lambda data: store.write(path, data, overwrite=False))


class BufferedOutput:
    """An output that is gathered in memory and written in one piece."""

    def __init__(self, write: Callable[[Buffer], None]) -> None:
        self._write = write
        self.file = pa.BufferOutputStream()

    def publish(self) -> None:
        """Hand all bytes to the store."""
        self._write(self.file.getvalue())

    def discard(self) -> None:
        """Forget the bytes."""
        self.file.close()
