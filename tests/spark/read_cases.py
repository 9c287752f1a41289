"""What the tests of reading share: comparison with the reader in this process, tables to read."""

from __future__ import annotations

from datetime import UTC

from lazydelta import Table
from lazydelta.spark import explain_read, read
from tests.golden_pack import golden_tables
from tests.unit.scan.read.test_generated import counted


def golden_names():
    """Return the tables of the pack that can be read."""
    return [
        entry["name"]
        for entry in golden_tables()
        if entry["kind"] == "ok" and "read_error" not in entry["expected"]
    ]


def assert_same_rows(spark, path, *, ways=None, version=None, where=None, columns=None):
    """Compare what Spark and this process read: the names and order of columns, and all rows.

    Without `ways`, what is read natively by default is read by our reader as well.
    """
    asked = {"version": version, "where": where, "columns": columns}
    expected = Table.open(path).snapshot(version).scan(where, columns).to_arrow()
    if ways is None:
        chosen = explain_read(spark, path, **asked)["rows"]["path"]
        ways = ["auto"] if chosen == "arrow" else ["auto", "arrow"]
    for way in ways:
        frame = read(spark, path, path=way, **asked)
        assert frame.columns == expected.schema.names, way
        assert counted(rows_of(frame)) == counted(expected.to_pylist()), way
    return expected


def rows_of(frame):
    """Return the rows as Arrow would; PySpark's own way there fails for null variants."""
    if "variant" not in frame.schema.simpleString():
        return frame.toArrow().to_pylist()
    return [as_in_arrow(row, frame.schema) for row in frame.collect()]


def as_in_arrow(value, kind):
    """Return a collected value in the form that Arrow gives; a variant as its two parts."""
    if value is None:
        return None
    match kind.typeName():
        case "struct":
            parts = zip(kind, value, strict=True)
            return {field.name: as_in_arrow(part, field.dataType) for field, part in parts}
        case "array":
            return [as_in_arrow(part, kind.elementType) for part in value]
        case "map":
            return [(key, as_in_arrow(part, kind.valueType)) for key, part in value.items()]
        case "variant":
            return {"metadata": bytes(value.metadata), "value": bytes(value.value)}
        case "timestamp":
            return value.astimezone(UTC)
    return value
