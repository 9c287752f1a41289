"""Streaming writes: an object appears atomically when it is published.

A store may implement `open_output(path)`; for others the bytes are buffered in memory and passed
to `write`. An output is used by one thread at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.store.interface import Buffer, Store

__all__ = ["BufferedOutput", "Output", "open_output"]


class Output(Protocol):
    """A new object that is being written."""

    @property
    def file(self) -> pa.NativeFile:
        """Sequential output stream of its bytes."""

    def publish(self) -> None:
        """Make the object visible, durably; `ObjectExistsError` if the path exists."""

    def discard(self) -> None:
        """Remove all traces; does nothing after `publish`, or when repeated."""


def open_output(store: Store, path: str) -> Output:
    """Open a new object of a store for writing."""
    store_open: Callable[[str], Output] | None = getattr(store, "open_output", None)
    if store_open is not None:
        return store_open(path)
    return BufferedOutput(lambda data: store.write(path, data, overwrite=False))


class BufferedOutput:
    """An output that is buffered in memory and written at once."""

    def __init__(self, write: Callable[[Buffer], None]) -> None:
        self._write = write
        self.file = pa.BufferOutputStream()

    def publish(self) -> None:
        """Write all bytes to the store."""
        self._write(self.file.getvalue())

    def discard(self) -> None:
        """Drop the bytes."""
        self.file.close()
