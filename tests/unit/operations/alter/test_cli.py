"""`lazydelta create` and `lazydelta alter`: parse, call, show."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Table
from lazydelta.schema import parse_columns, schema_to_json
from tests.cli.support import run
from tests.unit.operations.alter.support import same_rows

COLUMNS = "id bigint not null, n string, day date"


def done(*args):
    result = run(*args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def failed(*args):
    result = run(*args)
    assert result.exit_code != 0
    return result.stderr


def test_create_with_everything(tmp_path):
    url = tmp_path / "t"
    shown = json.loads(
        done(
            "create", url, "--schema", COLUMNS, "--partition-by", "day",
            "--property", "delta.enableChangeDataFeed=true", "--property", "own=a=b",
            "--constraint", "positive=id > 0", "--name", "trips", "--description", "of taxis",
            "--json",
        )
    )  # fmt: skip
    assert shown == {
        "table": str(url),
        "version": 0,
        "columns": ["id: long not null", "n: string", "day: date"],
        "partition_columns": ["day"],
        "min_reader_version": 1,
        "min_writer_version": 4,
        "features": [],
    }
    metadata = Table.open(url).snapshot().metadata
    assert metadata.configuration == {
        "delta.enableChangeDataFeed": "true",
        "own": "a=b",
        "delta.constraints.positive": "id > 0",
    }
    assert (metadata.name, metadata.description) == ("trips", "of taxis")
    assert same_rows(url) == []


@pytest.mark.parametrize("suffix", [".parquet", ".json"])
def test_create_from_a_file(tmp_path, suffix):
    file = tmp_path / f"schema{suffix}"
    if suffix == ".json":
        file.write_text(schema_to_json(parse_columns("a long, b array<string>")))
    else:
        columns = [("a", pa.int64()), ("b", pa.list_(pa.string()))]
        pq.write_table(pa.schema(columns).empty_table(), file)
    assert "version\t0" in done("create", tmp_path / "t", "--schema-from", file)
    assert str(Table.open(tmp_path / "t").snapshot().schema) == "struct<a: long, b: array<string>>"


def test_create_that_fails(tmp_path):
    url, text = tmp_path / "t", tmp_path / "schema.txt"
    text.write_text("a int")
    assert "--schema or with --schema-from" in failed("create", url)
    assert "--schema or" in failed("create", url, "--schema", "a int", "--schema-from", text)
    assert "neither a .parquet nor a .json" in failed("create", url, "--schema-from", text)
    assert "expected a type, not 'money'" in failed("create", url, "--schema", "a money")
    refused = failed("create", url, "--schema", "a int", "--property", "delta.appendonly=true")
    assert "did you mean 'delta.appendOnly'?" in refused
    assert "expected KEY=VALUE" in failed("create", url, "--schema", "a int", "--property", "x")
    assert not url.exists()
    done("create", url, "--schema", "a int")
    assert "already" in failed("create", url, "--schema", "a int")
    done("create", url, "--schema", "a int", "--if-not-exists")
    assert "requested b: integer" in failed("create", url, "--schema", "b int", "--if-not-exists")


def test_every_verb(tmp_path):
    url = tmp_path / "t"
    done("create", url, "--schema", COLUMNS)
    lines = [
        done("alter", url, *words)
        for words in (
            ("add-column", "x", "struct<y: int>"),
            ("add-column", "x.z", "string"),
            ("add-column", "first", "int", "--first"),
            ("add-column", "second", "int", "--after", "first"),
            ("set", "delta.columnMapping.mode=name", "mine=x", "delta.enableTypeWidening=true"),
            ("rename-column", "n", "the name"),
            ("drop-column", "x.y"),
            ("change-type", "second", "bigint"),
            ("set-not-null", "day"),
            ("drop-not-null", "id"),
            ("set-comment", "`the name`", "of people"),
            ("set-default", "second", "5"),
            ("unset", "mine"),
            ("add-constraint", "positive", "id > 0"),
            ("drop-constraint", "positive"),
            ("set-name", "trips"),
            ("set-description", "of taxis"),
            ("add-feature", "deletionVectors"),
            ("upgrade-protocol", "--reader", "3"),
        )
    ]
    assert [line.split(":")[0] for line in lines] == [f"version {n}" for n in range(1, 19)] + [
        "version 18"
    ]
    assert "nothing to change" in lines[-1]
    snapshot = Table.open(url).snapshot()
    assert str(snapshot.schema) == (
        "struct<first: integer, second: long, id: long, the name: string, day: date not null, "
        "x: struct<z: string>>"
    )


def test_alter_as_json(tmp_path):
    url = tmp_path / "t"
    done("create", url, "--schema", COLUMNS)
    assert json.loads(done("alter", url, "set", "mine=x", "--json")) == {
        "operation": "SET TBLPROPERTIES",
        "version": 1,
        "changed": True,
        "warnings": [],
    }
    assert json.loads(done("alter", url, "set", "mine=x", "--json"))["changed"] is False


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("drop-column", "n"), "Enable column mapping first"),
        (("drop-column", "nope"), "no column 'nope'"),
        (("add-column", "n", "int"), "column n already exists"),
        (("unset", "mine"), "the table has no such property"),
        (("add-constraint", "c", "id >"), "cannot use the predicate 'id >'"),
        (("set", "mine"), "expected KEY=VALUE"),
        (("set",), "Missing argument"),
        (("shrink",), "No such command"),
        (("upgrade-protocol", "--writer", "9"), "newest versions are 3"),
    ],
)
def test_alter_that_fails(tmp_path, words, reason):
    url = tmp_path / "t"
    done("create", url, "--schema", COLUMNS)
    assert reason in failed("alter", url, *words)
    assert Table.open(url).version == 0


def test_no_table(tmp_path):
    assert "no Delta table" in failed("alter", tmp_path, "set", "mine=x")
