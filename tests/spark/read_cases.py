"""Helpers of the read tests: tables, and comparison with the reader in this process."""

from __future__ import annotations

from lazydelta import Table
from lazydelta.spark import explain_read, read, to_arrow
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
    """Compare the rows that Spark and this process read, and the names and order of their columns.

    `ways` are read paths. By default the automatic choice, and the arrow path if that is native.
    """
    request = {"version": version, "where": where, "columns": columns}
    expected = Table.open(path).snapshot(version).scan(where, columns).to_arrow()
    if ways is None:
        chosen = explain_read(spark, path, **request)["rows"]["path"]
        ways = ["auto"] if chosen == "arrow" else ["auto", "arrow"]
    for way in ways:
        frame = read(spark, path, path=way, **request)
        assert frame.columns == expected.schema.names, way
        assert counted(rows_of(frame)) == counted(expected.to_pylist()), way
    return expected


def rows_of(frame):
    """Return the rows of a DataFrame, which may have null variants."""
    return to_arrow(frame).to_pylist()
