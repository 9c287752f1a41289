"""Random tables: types, partitions, deletion vectors, column mapping and schema evolution."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Table
from lazydelta.scan.read.reading import ReadOptions
from tests.support import examples
from tests.unit.scan.read.generated import generated


def counted(rows):
    """Return rows as a multiset; NaN equals NaN."""
    return Counter(repr(plain(row)) for row in rows)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        items = [plain(one) for one in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value + 0.0 if isinstance(value, float) else value


def expected_of(table, schema):
    """Return the expected rows with 32-bit floats and scaled decimals."""
    return pa.Table.from_pylist(table.rows(), schema=schema).to_pylist()


@examples(75, long=150)
@given(generated(), st.integers(1, 4), st.data())
def test_rows_are_in_the_current_schema(table, batch_rows, data):
    with tempfile.TemporaryDirectory() as directory:
        table.build(Path(directory) / "t").open()
        scan = Table.open(Path(directory) / "t").scan()
        found = scan.to_arrow(ReadOptions(batch_rows=batch_rows))
        found.validate(full=True)
        expected = expected_of(table, found.schema)
        assert counted(found.to_pylist()) == counted(expected)
        some = data.draw(st.lists(st.sampled_from(found.schema.names), unique=True))
        part = Table.open(Path(directory) / "t").scan(columns=some)
        assert part.count() == len(expected)
        if some:
            shown = [{name: row[name] for name in some} for row in expected]
            assert counted(part.to_arrow().to_pylist()) == counted(shown)
            missing = Table.open(Path(directory) / "t").scan(f"`{some[0]}` is null")
            nulls = [row for row in expected if row[some[0]] is None]
            assert counted(missing.to_arrow().to_pylist()) == counted(nulls)


@settings(max_examples=60)
@given(generated())
def test_deltalake_agrees(table):
    """deltalake 1.6 cannot read a map whose values gained a field:

    `Cannot cast column 'c2' from 'Map(...)' (physical data type) to 'Map(...)'`.
    """
    deltalake = pytest.importorskip("deltalake")
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "t")
        table.build(Path(path)).open()
        ours = Table.open(path).scan().to_arrow()
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        try:
            theirs = pa.table(query.execute("select * from t").read_all())
        except Exception as error:
            if "Cannot cast column" in str(error) and "'Map(" in str(error):
                return
            raise
        assert counted(ours.to_pylist()) == counted(theirs.to_pylist())
