"""Files and commits that are missing, damaged or hostile end in an error that names them."""

from __future__ import annotations

import json

import pytest

from lazydelta import ReadOptions
from lazydelta.errors import (
    ConfigError,
    DataFileError,
    DataFileNotFoundError,
    DeletionVectorError,
    LogCorruptError,
    LogGapError,
    PathNotAllowedError,
    SchemaError,
)
from tests.builders import add
from tests.unit.changes.support import FeedTable, changes, feed, ids


@pytest.fixture
def table(tmp_path):
    table = FeedTable(tmp_path)
    return table.commit(table.add("a", {"id": [0, 1, 2]}))


def test_a_missing_data_file(table):
    table.commit(table.remove("a"))
    (table.directory / "a").unlink()
    with pytest.raises(DataFileNotFoundError) as caught:
        feed(table, 1)
    assert (caught.value.path, caught.value.version) == ("a", 1)


def test_a_missing_change_file(table):
    table.commit(table.cdc("c", {"id": [1], "_change_type": ["delete"]}))
    (table.directory / "_change_data" / "c").unlink()
    with pytest.raises(DataFileNotFoundError, match="_change_data/c"):
        feed(table)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        pytest.param({"id": [1]}, "_change_type", id="no-type-column"),
        pytest.param({"id": ["x"], "_change_type": ["insert"]}, "'id'", id="other-types"),
    ],
)
def test_invalid_change_files(table, columns, reason):
    table.commit(table.cdc("c", columns))
    with pytest.raises(DataFileError, match=reason) as caught:
        feed(table, 1)
    assert caught.value.path == "_change_data/c"


def test_a_damaged_file(table):
    (table.directory / "a").write_bytes(b"PAR1 nothing of the kind PAR1")
    with pytest.raises(DataFileError, match="cannot read a of"):
        feed(table)


def test_a_vector_past_the_end_of_its_file(table):
    table.commit(table.remove("a"), table.add("a", deleted=[3]))
    with pytest.raises(DeletionVectorError, match="row 3"):
        feed(table, 1)


def test_a_vector_with_another_cardinality(table):
    action = table.add("a", deleted=[1])
    action["add"]["deletionVector"]["cardinality"] = 2
    table.commit(table.remove("a"), action)
    with pytest.raises(DeletionVectorError, match="2 are declared"):
        feed(table, 1)


def test_a_file_outside_the_table(table):
    table.commit(add("../secret.parquet"))
    with pytest.raises(PathNotAllowedError):
        feed(table, 1)


@pytest.mark.parametrize("kind", ["add", "remove"])
def test_a_file_twice_in_one_version(table, kind):
    more = {"add": table.add("a", deleted=[1, 2]), "remove": table.remove("a", deleted=[0])}
    table.commit(table.remove("a"), table.add("a", deleted=[1]), more[kind])
    with pytest.raises(LogCorruptError, match="more than once") as caught:
        feed(table, 1)
    assert caught.value.version == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param("{nonsense", "JSON", id="no-json"),
        pytest.param('{"add":{"size":1}}', "add has no path", id="no-path"),
        pytest.param('{"cdc":{"size":1}}', "cdc has no path", id="no-path-of-cdc"),
        pytest.param('{"add":{"path":"a","path":"b"}}', "duplicate", id="duplicate-key"),
    ],
)
def test_a_damaged_line(table, line, reason):
    lines = [json.dumps({"commitInfo": {}}), line]
    table.log.write("00000000000000000001.json", "\n".join(lines).encode())
    with pytest.raises(LogCorruptError, match=reason) as caught:
        feed(table, 0, 1)
    assert (caught.value.version, caught.value.line) == (1, 2)


def test_blank_lines_are_skipped(table):
    (table.directory / "b").write_bytes((table.directory / "a").read_bytes())
    line = json.dumps(table.add("b"))
    table.log.write("00000000000000000001.json", f"\n  {line}  \n\n".encode())
    assert changes(table, 1) == ids(1, "insert", 0, 1, 2)


def test_a_commit_larger_than_a_block(table, monkeypatch):
    from lazydelta.changes import tuning

    monkeypatch.setattr(tuning, "MAX_PREFETCH_BYTES", 100)
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 700)
    for number in range(40):
        table.file(f"f{number}", {"id": [number]})
    table.commit(*(table.add(f"f{number}") for number in range(40)))
    assert changes(table, 1) == sorted(ids(1, "insert", *range(40)), key=repr)


def test_an_empty_commit(table):
    table.log.write("00000000000000000001.json", b"\n \n")
    table.log.checkpoint(version=0)
    with pytest.raises(LogCorruptError):
        feed(table, 0, 1)


def test_invalid_partition_values(tmp_path):
    table = FeedTable(tmp_path, {"id": "long", "p": "integer"}, partition_by=["p"])
    table.commit(table.add("a", {"id": [1]}, values={"p": "x"}))
    with pytest.raises(SchemaError, match="'p'"):
        feed(table)


def test_a_commit_without_an_in_commit_timestamp(tmp_path):
    table = FeedTable(tmp_path, in_commit_timestamps=True)
    table.commit(table.add("a", {"id": [1]}), info=False)
    with pytest.raises(LogCorruptError, match="inCommitTimestamp"):
        feed(table)


@pytest.mark.parametrize("time", [2**63 - 1, -1, "now"])
def test_a_commit_with_an_invalid_in_commit_timestamp(tmp_path, time):
    table = FeedTable(tmp_path, in_commit_timestamps=True)
    info = {"commitInfo": {"inCommitTimestamp": time, "timestamp": 1}}
    table.commit(info, table.add("a", {"id": [1]}), info=False)
    with pytest.raises(LogCorruptError, match="inCommitTimestamp"):
        feed(table)


def test_a_huge_version(table):
    table.log.checkpoint(version=2**60)
    with pytest.raises(LogGapError) as caught:
        feed(table)
    assert caught.value.missing[0] == 1


def test_a_remove_of_an_unknown_file(tmp_path):
    table = FeedTable(tmp_path, {"id": "long", "p": "integer"}, partition_by=["p"])
    table.commit(table.add("a", {"id": [1]}, values={"p": "1"}))
    table.commit(table.remove("b"))
    with pytest.raises(LogCorruptError, match="partition values"):
        feed(table, 1)


def test_options_that_changes_do_not_support(table):
    with pytest.raises(ConfigError, match="file_column"):
        feed(table, options=ReadOptions(file_column_name="f"))
