"""Round trips with deltalake: it reads, filters and writes our tables, then we do again."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pytest

from lazydelta import Table
from tests.round_trip.shapes import SHAPES, plain
from tests.round_trip.table_model import TableModel, assert_rows, conditions
from tests.unit.scan.read.test_generated import counted

deltalake = pytest.importorskip("deltalake", reason="pip install -r requirements/test.txt")

UNREADABLE = {"type-widening": "TypeWidening"}
"""What deltalake does not read, by the feature that it names."""
UNWRITABLE = {
    "rules": "AllowColumnDefaults",
    "in-commit-timestamps": "InCommitTimestamp",
    "row-tracking": "RowTracking",
    "type-widening": "TypeWidening",
}
"""What deltalake does not write, likewise."""
UNCOMPACTABLE = {
    "column-mapping": "Column mapping",
    "column-mapping-later": "Column mapping",
}
"""Shapes that deltalake does not optimize, and its error message."""
CORRUPTED = ("partitioned-by-times",)
"""What deltalake (1.6) does optimize, and cannot read then: it writes -1.05 as "-1.-5"."""
READABLE = [name for name in SHAPES if name not in UNREADABLE]
WRITABLE = [name for name in SHAPES if name not in UNWRITABLE]
IN_TURN = [
    pytest.param(name, marks=pytest.mark.long) if SHAPES[name].row is plain and at % 2 else name
    for at, name in enumerate(WRITABLE)
]
"""Of those with the same rows, half are enough every day."""

SKIPPED = [
    pytest.param(name, marks=pytest.mark.long) if SHAPES[name].row is plain else name
    for name in READABLE
    if name != "unpartitioned"
] + ["unpartitioned"]
"""Tables with the same rows have the same statistics: by default only the first is tested."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the table of a shape, written once; a test that writes to it takes a copy."""
    models: dict[str, TableModel] = {}

    def model(name):
        if name not in models:
            models[name] = TableModel.written(name, tmp_path_factory.mktemp("round-trip"))
        return models[name]

    return model


def their_rows(path, where="true", version=None):
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path, version=version))
    return pa.table(query.execute(f"select * from t where {where}").read_all())


def in_their_sql(condition):
    """Return a condition as DataFusion SQL."""
    column = '"' + condition.column.replace('"', '""') + '"'
    if condition.operator == "is null":
        return f"{column} is null"
    return f"{column} {condition.operator} {literal(condition.value)}"


def literal(value):
    match value:
        case datetime():
            zone = "None" if value.tzinfo is None else 'Some("UTC")'
            string = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return f"arrow_cast('{string}', 'Timestamp(Microsecond, {zone})')"
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(38, 10))"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", READABLE)
def test_deltalake_reads_every_version(written, name):
    model = written(name)
    assert sorted(model.versions) == list(range(model.table.version + 1))
    for version, rows in model.versions.items():
        assert_rows(their_rows(model.path, version=version), rows)
        adds = pa.table(deltalake.DeltaTable(model.path, version=version).get_add_actions())
        files = list(model.table.snapshot(version).scan().files())
        assert sorted(map(unquote, adds["path"].to_pylist())) == sorted(f.path for f in files)
        assert sum(adds["num_records"].to_pylist()) == len(rows)


@pytest.mark.parametrize("name", SHAPES)
def test_deltalake_reads_our_history(written, name):
    model = written(name)
    theirs = deltalake.DeltaTable(model.path).history()
    ours = [(info.version, info.operation, info.raw["timestamp"]) for info in model.table.history()]
    assert [(one["version"], one["operation"], one["timestamp"]) for one in theirs] == ours


@pytest.mark.parametrize("name", SKIPPED)
def test_data_skipping_with_our_statistics_loses_no_row(written, name):
    model = written(name)
    selected = conditions(model.rows)
    assert len(selected) >= 10
    for condition in selected:
        found = their_rows(model.path, in_their_sql(condition))
        assert_rows(found, [row for row in model.rows if condition.holds(row)])


def test_deltalake_uses_our_statistics(written, tmp_path):
    """Control: with a false bound in the log deltalake loses the row."""
    model = written("unpartitioned").copied(tmp_path)
    assert their_rows(model.path, "id = 0").num_rows == 1
    commit = tmp_path / "unpartitioned" / "_delta_log" / f"{1:020}.json"
    commit_json = commit.read_text()
    false_json = commit_json.replace(r'"minValues\":{\"id\":0', r'"minValues\":{\"id\":5')
    assert false_json != commit_json
    commit.write_text(false_json)
    assert their_rows(model.path, "id = 0").num_rows == 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", IN_TURN)
def test_both_engines_write_in_turn(written, tmp_path, name):
    model = written(name).copied(tmp_path)
    they_append(model)
    both_append(model)
    deltalake.DeltaTable(model.path).create_checkpoint()
    both_append(model)
    model.table.checkpoint()
    they_append(model)
    both_append(model)
    if name not in (*UNCOMPACTABLE, *CORRUPTED):
        assert deltalake.DeltaTable(model.path).optimize.compact()["numFilesRemoved"] > 1
        model.other_wrote(model.rows)
        both_append(model)
    if not model.shape.appends_only:
        they_delete(model)
        both_append(model)
        they_overwrite(model)
        both_append(model)
    for version, rows in model.versions.items():
        assert_rows(model.table.snapshot(version).to_arrow(), rows)
        if version not in written(name).versions:  # the others are read in another test
            assert_rows(their_rows(model.path, version=version), rows)


def they_append(model):
    given, new = model.next_rows()
    deltalake.write_deltalake(model.path, given, mode="append")
    model.other_wrote([*model.rows, *new])


def they_delete(model):
    gone = model.rows[0][model.key]
    deltalake.DeltaTable(model.path).delete(f'"{model.key}" = {gone}')
    model.other_wrote([row for row in model.rows if row[model.key] != gone])


def they_overwrite(model):
    given, new = model.next_rows()
    deltalake.write_deltalake(model.path, given, mode="overwrite")
    model.other_wrote(new)


def both_append(model):
    """We append, and deltalake reads it."""
    model.append()
    assert_rows(their_rows(model.path), model.rows)


@pytest.mark.parametrize(("name", "feature"), UNREADABLE.items())
def test_tables_that_deltalake_cannot_read(written, name, feature):
    with pytest.raises(Exception, match=feature):
        their_rows(written(name).path)


@pytest.mark.parametrize(("name", "feature"), UNWRITABLE.items())
def test_tables_that_deltalake_cannot_write(written, tmp_path, name, feature):
    model = written(name).copied(tmp_path)
    given, _ = model.next_rows()
    with pytest.raises(Exception, match=feature):
        deltalake.write_deltalake(model.path, given, mode="append")
    model.other_wrote(model.rows)
    both_append(model) if name in READABLE else model.append()


@pytest.mark.parametrize(("name", "reason"), UNCOMPACTABLE.items())
def test_tables_that_deltalake_cannot_optimize(written, tmp_path, name, reason):
    model = written(name).copied(tmp_path)
    with pytest.raises(Exception, match=reason):
        deltalake.DeltaTable(model.path).optimize.compact()
    model.other_wrote(model.rows)


@pytest.mark.parametrize("name", CORRUPTED)
def test_known_corruption_by_deltalake(written, tmp_path, name):
    """If this fails, deltalake has fixed it: add the table to the round trips."""
    model = written(name).copied(tmp_path)
    with pytest.raises(Exception, match="decimal"):
        deltalake.DeltaTable(model.path).optimize.compact()


def test_deltalake_refuses_deletes_from_an_append_only_table(written, tmp_path):
    model = written("append-only").copied(tmp_path)
    with pytest.raises(Exception, match="append"):
        they_delete(model)
    model.other_wrote(model.rows)


def test_deltalake_reads_our_change_feed(written, tmp_path):
    model = written("change-feed").copied(tmp_path)
    they_delete(model)
    model.append()
    theirs = pa.table(deltalake.DeltaTable(model.path).load_cdf(starting_version=0).read_all())
    ours = Table.open(model.path).changes(starting_version=0).to_arrow()
    shown = ["_change_type", "_commit_version", *model.table.snapshot().schema.names]
    assert len({row["_change_type"] for row in ours.to_pylist()}) == 2
    assert counted(theirs.select(shown).to_pylist()) == counted(ours.select(shown).to_pylist())
