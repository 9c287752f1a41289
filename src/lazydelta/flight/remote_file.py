"""`RemoteFile`: one file record of a server, a row of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

__all__ = ["RemoteFile", "remote_files"]


class RemoteFile:
    """A planned file. Its attributes are the columns of the file records, such as `path`.

    `RemoteScan.file_batches()` has the same records as Arrow batches.
    """

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: _Columns, row: int) -> None:
        self._columns = columns
        self._row = row

    def __getattr__(self, name: str) -> Any:
        values = self._columns.values(name)
        if values is None:
            names = ", ".join(self._columns.names)
            raise AttributeError(f"a file record has no {name!r}. It has: {names}")
        return values[self._row]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns.names]

    def __repr__(self) -> str:
        return f"RemoteFile(path={self.path!r}, size={self.size})"


def remote_files(batch: pa.RecordBatch) -> Iterable[RemoteFile]:
    """Return the files of a batch."""
    columns = _Columns(batch)
    return (RemoteFile(columns, row) for row in range(batch.num_rows))


class _Columns:
    """The columns of a batch as Python lists, converted on first access."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._lists: dict[str, list[Any]] = {}
        self.names: list[str] = batch.schema.names

    def values(self, name: str) -> list[Any] | None:
        if name not in self._lists:
            if name not in self.names:
                return None
            column = self._batch.column(name)
            is_map = str(column.type).startswith("map<")
            self._lists[name] = column.to_pylist(maps_as_pydicts="strict" if is_map else None)
        return self._lists[name]
