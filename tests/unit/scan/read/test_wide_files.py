"""Files with thousands of columns: column matching is linear."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.scan.read.transform import FileSchemaError, match_columns
from lazydelta.schema import PrimitiveType, StructField

NAMES = [f"c{at}" for at in range(2000)]
FIELDS = [
    StructField(
        name,
        PrimitiveType("long"),
        metadata={
            "delta.columnMapping.id": at,
            "delta.columnMapping.physicalName": name,
        },
    )
    for at, name in enumerate(NAMES)
]


class Counted:
    """A schema that counts iterations over its fields."""

    def __init__(self, schema):
        self.schema = schema
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return iter(self.schema)

    def __len__(self):
        return len(self.schema)

    def field(self, at):
        return self.schema.field(at)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_columns_are_matched_in_one_pass(mode):
    columns = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(at)})
        for at, name in enumerate(NAMES)
    ]
    schema = Counted(pa.schema(columns[::-1]))
    fit = match_columns(schema, FIELDS, mode)
    assert [source.name for source in fit.sources] == NAMES
    assert schema.passes <= 2  # one may be the check for field ids


@pytest.mark.parametrize(
    ("names", "found"),
    [(["X", "x"], "x"), (["x", "X"], "x"), (["X"], "X"), (["y"], None)],
)
def test_exact_names_are_preferred_over_other_case(names, found):
    schema = pa.schema([(name, pa.int64()) for name in names])
    (source,) = match_columns(schema, [StructField("x", PrimitiveType("long"))], "none").sources
    assert (source and source.name) == found


@pytest.mark.parametrize("names", [["x", "x"], ["X", "X"]])
def test_a_duplicate_column_is_refused(names):
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pytest.raises(FileSchemaError, match="more than one column"):
        match_columns(schema, [StructField("x", PrimitiveType("long"))], "none")
