"""Statistics of existing Parquet files, from their footers alone.

A bound is left out where a footer cannot be trusted to have it in the table's type: floats, whose
NaN it does not count, unsigned integers, timestamps that are not in microseconds, and dates of the
legacy calendar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.types as pt

from lazydelta.parquet.write import Statistics, StatisticsPlan
from lazydelta.schema import to_arrow_type
from lazydelta.schema.mapping import to_physical

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.parquet import DataFile
    from lazydelta.schema import DataType
    from lazydelta.writer.files import DataLayout

__all__ = ["footer_statistics"]


def footer_statistics(file: DataFile, layout: DataLayout) -> str:
    """Return the `stats` JSON of a file.

    Args:
        file: The file; its footer has been read.
        layout: Which columns have statistics.
    """
    plan = layout.statistics(to_physical(layout.schema, layout.mapping_mode))
    same = tuple((path, kind) for path, kind in plan.leaves if _is_trusted(file, path, kind))
    return Statistics(StatisticsPlan(same)).to_json(file.metadata)


def _is_trusted(file: DataFile, path: tuple[str, ...], kind: DataType) -> bool:
    expected = to_arrow_type(kind)
    is_rebased = file.calendar is not None and pt.is_temporal(expected)
    return _stored(file.schema, path) == expected and not is_rebased


def _stored(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    """Return the type of a leaf in the file; None if it has no such leaf."""
    index = schema.get_field_index(path[0])
    kind = schema.field(index).type if index >= 0 else None
    for name in path[1:]:
        if kind is None or not pt.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind
