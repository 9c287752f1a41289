"""Tables that we write, read, filtered and written on by deltalake, and then by us again."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pytest

from lazydelta import Table
from tests.round_trip.shapes import SHAPES, plain
from tests.round_trip.story import Story, assert_rows, conditions
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
"""What deltalake does not optimize, by what it says then."""
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
"""Tables with the same rows have the same statistics: the first of them is enough every day."""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return the story of a shape, written once; whoever goes on with it takes a copy."""
    stories: dict[str, Story] = {}

    def story(name):
        if name not in stories:
            stories[name] = Story.told(name, tmp_path_factory.mktemp("pingpong"))
        return stories[name]

    return story


def their_rows(path, where="true", version=None):
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path, version=version))
    return pa.table(query.execute(f"select * from t where {where}").read_all())


def in_their_sql(condition):
    """Return a condition in the SQL of DataFusion, which deltalake runs on."""
    column = '"' + condition.column.replace('"', '""') + '"'
    if condition.operator == "is null":
        return f"{column} is null"
    return f"{column} {condition.operator} {literal(condition.value)}"


def literal(value):
    match value:
        case datetime():
            zone = "None" if value.tzinfo is None else 'Some("UTC")'
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return f"arrow_cast('{text}', 'Timestamp(Microsecond, {zone})')"
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(38, 10))"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


@pytest.mark.parametrize("name", READABLE)
def test_every_version_reads_back_equal(told, name):
    story = told(name)
    assert sorted(story.versions) == list(range(story.table.version + 1))
    for version, rows in story.versions.items():
        assert_rows(their_rows(story.path, version=version), rows)
        adds = pa.table(deltalake.DeltaTable(story.path, version=version).get_add_actions())
        files = list(story.table.snapshot(version).scan().files())
        assert sorted(map(unquote, adds["path"].to_pylist())) == sorted(f.path for f in files)
        assert sum(adds["num_records"].to_pylist()) == len(rows)


@pytest.mark.parametrize("name", SHAPES)
def test_its_history_is_ours(told, name):
    story = told(name)
    theirs = deltalake.DeltaTable(story.path).history()
    ours = [(info.version, info.operation, info.raw["timestamp"]) for info in story.table.history()]
    assert [(one["version"], one["operation"], one["timestamp"]) for one in theirs] == ours


@pytest.mark.parametrize("name", SKIPPED)
def test_it_skips_by_our_statistics_and_loses_no_row(told, name):
    story = told(name)
    asked = conditions(story.rows)
    assert len(asked) >= 10
    for condition in asked:
        found = their_rows(story.path, in_their_sql(condition))
        assert_rows(found, [row for row in story.rows if condition.holds(row)])


def test_it_does_go_by_our_statistics(told, tmp_path):
    """The control: with a false bound in the log it does lose the row."""
    story = told("unpartitioned").copied(tmp_path)
    assert their_rows(story.path, "id = 0").num_rows == 1
    commit = tmp_path / "unpartitioned" / "_delta_log" / f"{1:020}.json"
    told_text = commit.read_text()
    false_text = told_text.replace(r'"minValues\":{\"id\":0', r'"minValues\":{\"id\":5')
    assert false_text != told_text
    commit.write_text(false_text)
    assert their_rows(story.path, "id = 0").num_rows == 0


@pytest.mark.parametrize("name", IN_TURN)
def test_they_write_and_we_write_in_turn(told, tmp_path, name):
    story = told(name).copied(tmp_path)
    they_append(story)
    both_go_on(story)
    deltalake.DeltaTable(story.path).create_checkpoint()
    both_go_on(story)
    story.table.checkpoint()
    they_append(story)
    both_go_on(story)
    if name not in (*UNCOMPACTABLE, *CORRUPTED):
        assert deltalake.DeltaTable(story.path).optimize.compact()["numFilesRemoved"] > 1
        story.other_wrote(story.rows)
        both_go_on(story)
    if not story.shape.appends_only:
        they_delete(story)
        both_go_on(story)
        they_overwrite(story)
        both_go_on(story)
    for version, rows in story.versions.items():
        assert_rows(story.table.snapshot(version).to_arrow(), rows)
        if version not in told(name).versions:  # those it has read in another test
            assert_rows(their_rows(story.path, version=version), rows)


def they_append(story):
    given, new = story.next_rows()
    deltalake.write_deltalake(story.path, given, mode="append")
    story.other_wrote([*story.rows, *new])


def they_delete(story):
    gone = story.rows[0][story.key]
    deltalake.DeltaTable(story.path).delete(f'"{story.key}" = {gone}')
    story.other_wrote([row for row in story.rows if row[story.key] != gone])


def they_overwrite(story):
    given, new = story.next_rows()
    deltalake.write_deltalake(story.path, given, mode="overwrite")
    story.other_wrote(new)


def both_go_on(story):
    """We append to what they left, and they read it."""
    story.append()
    assert_rows(their_rows(story.path), story.rows)


@pytest.mark.parametrize(("name", "feature"), UNREADABLE.items())
def test_what_it_cannot_read_it_refuses_by_name(told, name, feature):
    with pytest.raises(Exception, match=feature):
        their_rows(told(name).path)


@pytest.mark.parametrize(("name", "feature"), UNWRITABLE.items())
def test_what_it_cannot_write_it_refuses_by_name(told, tmp_path, name, feature):
    story = told(name).copied(tmp_path)
    given, _ = story.next_rows()
    with pytest.raises(Exception, match=feature):
        deltalake.write_deltalake(story.path, given, mode="append")
    story.other_wrote(story.rows)
    both_go_on(story) if name in READABLE else story.append()


@pytest.mark.parametrize(("name", "reason"), UNCOMPACTABLE.items())
def test_what_it_cannot_optimize_it_refuses_by_name(told, tmp_path, name, reason):
    story = told(name).copied(tmp_path)
    with pytest.raises(Exception, match=reason):
        deltalake.DeltaTable(story.path).optimize.compact()
    story.other_wrote(story.rows)


@pytest.mark.parametrize("name", CORRUPTED)
def test_what_it_corrupts_is_still_corrupted(told, tmp_path, name):
    """If this fails, deltalake has mended it, and the table can be played on."""
    story = told(name).copied(tmp_path)
    with pytest.raises(Exception, match="decimal"):
        deltalake.DeltaTable(story.path).optimize.compact()


def test_it_does_not_delete_from_a_table_that_only_grows(told, tmp_path):
    story = told("append-only").copied(tmp_path)
    with pytest.raises(Exception, match="append"):
        they_delete(story)
    story.other_wrote(story.rows)


def test_it_reads_our_change_feed(told, tmp_path):
    story = told("change-feed").copied(tmp_path)
    they_delete(story)
    story.append()
    theirs = pa.table(deltalake.DeltaTable(story.path).load_cdf(starting_version=0).read_all())
    ours = Table.open(story.path).changes(starting_version=0).to_arrow()
    shown = ["_change_type", "_commit_version", *story.table.snapshot().schema.names]
    assert len({row["_change_type"] for row in ours.to_pylist()}) == 2
    assert counted(theirs.select(shown).to_pylist()) == counted(ours.select(shown).to_pylist())
