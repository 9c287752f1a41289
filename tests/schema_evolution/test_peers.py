"""Schema evolution with deltalake and Polars: same rows, or a refused feature.

DuckDB is not tested: it downloads its Delta extension.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Table
from tests.schema_evolution.build import build, expected_rows
from tests.schema_evolution.steps import STEPS

deltalake = pytest.importorskip("deltalake")

MAPPED = next(at for at, step in enumerate(STEPS) if step.name == "column-mapping")
VERSIONS = pytest.mark.parametrize("version", range(len(STEPS)), ids=[r.name for r in STEPS])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    made = tmp_path_factory.mktemp("ladder")
    build(made)
    return str(made)


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def through_deltalake(directory, version):
    table = deltalake.DeltaTable(directory, version=version)
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
    return pa.table(found).to_pylist()


def through_polars(directory, version):
    polars = pytest.importorskip("polars")
    return polars.scan_delta(directory, version=version).collect().to_arrow().to_pylist()


def read_or_refused(read, directory, version):
    """Return the rows, or None if the engine refuses a feature."""
    try:
        return read(directory, version)
    except Exception as error:  # noqa: BLE001 - engines raise different types
        assert "feature" in str(error), error
        assert version >= MAPPED, f"{STEPS[version].name} needs no feature: {error}"
        return None


@VERSIONS
def test_deltalake_reads_the_same_rows(directory, version):
    """It refuses type widening (1.6: `Unsupported table features required: [TypeWidening]`)."""
    found = read_or_refused(through_deltalake, directory, version)
    ours = Table.open(directory).snapshot(version).scan().to_arrow().to_pylist()
    if found is not None:
        assert by_id(ours) == by_id(found)
    assert len(ours) == len(expected_rows(version))


@VERSIONS
def test_polars_reads_the_same_rows(directory, version):
    """It refuses column mapping, and takes partition values from directory names such as `day=...`.

    No file here is in such a directory, so `day` is NULL in all rows of Polars 2.1 and is not
    compared.
    """
    found = read_or_refused(through_polars, directory, version)
    ours = Table.open(directory).snapshot(version).scan().to_arrow().to_pylist()
    if found is not None:
        without = [{k: v for k, v in row.items() if k != "day"} for row in ours]
        assert by_id(without) == by_id([{k: v for k, v in r.items() if k != "day"} for r in found])
    assert len(ours) == len(expected_rows(version))


def test_schema_evolution_by_deltalake(tmp_path):
    """It supports the steps up to the CHECK constraint, and lists of structs.

    It appends new fields where a step inserts one, so rows are compared by name. It cannot add
    invariants and generated columns to an existing table: `Not
    allowed to modify protected metadata`, `New columns cannot be a generated column`.
    """
    path = str(tmp_path / "t")
    for step in STEPS[:3]:
        rows = [row for file in step.files for row in file.rows]
        schema = step.files[0].schema.append(pa.field("day", pa.date32()))
        deltalake.write_deltalake(
            path, pa.Table.from_pylist(rows, schema=schema), partition_by=["day"], mode="append",
            schema_mode="merge",
        )  # fmt: skip
    deltalake.DeltaTable(path).alter.add_constraint({"known": "id > 0"})
    table = Table.open(path)
    for version in range(4):
        snapshot = table.snapshot(version)
        assert by_id(snapshot.scan().to_arrow().to_pylist()) == by_id(expected_rows(version))
        names = {field["name"] for field in STEPS[version].fields}
        assert set(snapshot.schema.names) == names
    assert table.snapshot(3).metadata.configuration["delta.constraints.known"] == "id > 0"


def test_lists_of_structs_evolved_by_deltalake(tmp_path):
    """delta-rs #3339: a field added or reordered within a list of structs."""
    path = str(tmp_path / "t")
    kinds = [
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        pa.struct([("b", pa.string()), ("c", pa.float64()), ("a", pa.int64())]),
        pa.struct([("c", pa.float64())]),
    ]
    written = []
    for at, kind in enumerate(kinds):
        values = {"a": at, "b": f"b{at}", "c": at / 2}
        item = {f.name: values[f.name] for f in kind}
        rows = [
            {"id": 10 * at, "l": [item, None]},
            {"id": 10 * at + 1, "l": []},
            {"id": 10 * at + 2, "l": None},
        ]
        schema = pa.schema([("id", pa.int64()), ("l", pa.list_(kind))])
        made = pa.Table.from_pylist(rows, schema=schema)
        deltalake.write_deltalake(path, made, mode="append", schema_mode="merge")
        whole = {"a": None, "b": None, "c": None}
        written += [r | {"l": r["l"] and [e and whole | e for e in r["l"]]} for r in rows]
    found = Table.open(path).scan().to_arrow().to_pylist()
    assert by_id(found) == by_id(written)
    assert by_id(through_deltalake(path, 2)) == by_id(found)
