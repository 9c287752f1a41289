"""`lazydelta write`: input files become one version."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from tests.cli.support import run
from tests.footers import deepened
from tests.native.pages import data_page, file_of

DATA = pa.table({"id": [1, 2], "day": ["2026-01-31", "2026-02-01"], "v": [1.5, None]})


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(DATA, folder / "rows.parquet")
    (folder / "rows.csv").write_text("id,day,v\n1,2026-01-31,1.5\n2,2026-02-01,\n")
    (folder / "rows.tsv").write_text("id\tday\tv\n1\t2026-01-31\t1.5\n2\t2026-02-01\t\n")
    lines = [json.dumps(row) for row in DATA.to_pylist()]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder


def written(*arguments):
    result = run("write", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.tsv", "rows.jsonl"])
def test_files_of_every_kind(tmp_path, sources, name):
    found = written(tmp_path / "t", sources / name)
    assert (found["version"], found["rows"], found["files_added"]) == (0, 2, 1)
    rows = ld.Table.open(tmp_path / "t").to_arrow().to_pylist()
    assert [row["id"] for row in rows] == [1, 2]
    assert [row["v"] for row in rows] == [1.5, None]


def test_int96_timestamps_after_2262(tmp_path):
    late = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC).replace(tzinfo=None)
    rows = pa.table({"t": pa.array([late], pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "rows.parquet", use_deprecated_int96_timestamps=True)
    written(tmp_path / "t", tmp_path / "rows.parquet")
    assert ld.Table.open(tmp_path / "t").to_arrow().to_pylist() == [{"t": late}]


NOTES = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}


def test_dates_of_the_legacy_calendar_are_rebased(tmp_path):
    stored = pa.table({"d": pa.array([-141428, 0, None], pa.int32()).cast(pa.date32())})
    pq.write_table(stored.replace_schema_metadata(NOTES), tmp_path / "rows.parquet")
    written(tmp_path / "t", tmp_path / "rows.parquet")
    found = ld.Table.open(tmp_path / "t").to_arrow()["d"].to_pylist()
    assert found == [date(1582, 10, 4), date(1970, 1, 1), None]


def test_legacy_timestamps_of_another_zone_than_utc_are_refused(tmp_path):
    stored = pa.table({"t": pa.array([-(10**16)], pa.timestamp("us", "UTC"))})
    notes = NOTES | {"org.apache.spark.timeZone": "No/Where"}
    pq.write_table(stored.replace_schema_metadata(notes), tmp_path / "rows.parquet")
    result = run("write", tmp_path / "t", tmp_path / "rows.parquet")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {tmp_path / 'rows.parquet'}: cannot be read as parq")
    assert "'No/Where'" in result.stderr


def test_csv_values_are_parsed_as_the_table_types(tmp_path, sources):
    ld.Table.create(tmp_path / "t", "id int, day date, v decimal(5,2)")
    for name in ("rows.csv", "rows.jsonl"):
        written(tmp_path / "t", sources / name)
    found = ld.Table.open(tmp_path / "t").to_arrow()
    assert found.schema.types == [pa.int32(), pa.date32(), pa.decimal128(5, 2)]
    assert found.num_rows == 4


def test_many_files_partitions_and_modes(tmp_path, sources):
    url = tmp_path / "t"
    found = written(
        url, sources / "rows.parquet", sources / "rows.parquet", "--partition-by", "day"
    )
    assert (found["rows"], found["files_added"]) == (4, 2)
    found = written(url, sources / "rows.parquet", "--mode", "overwrite")
    assert (found["version"], found["files_removed"]) == (1, 2)
    assert written(url, sources / "rows.parquet", "--mode", "ignore")["skipped"] is True
    step = ("--app-id", "job", "--app-version", "1")
    assert written(url, sources / "rows.parquet", *step)["already_applied"] is False
    assert written(url, sources / "rows.parquet", *step)["already_applied"] is True
    one = sources / "one.parquet"
    pq.write_table(DATA.slice(0, 1), one)
    written(url, one, "--mode", "overwrite", "--where", "id = 1")
    assert sorted(ld.Table.open(url).to_arrow()["id"].to_pylist()) == [1, 2, 2]


def test_a_schema_is_merged_only_on_request(tmp_path, sources):
    written(tmp_path / "t", sources / "rows.parquet")
    more = sources / "more.parquet"
    pq.write_table(DATA.append_column("extra", pa.array(["x", "y"])), more)
    refused = run("write", tmp_path / "t", more)
    assert refused.exit_code == 1
    assert "extra" in refused.stderr
    written(tmp_path / "t", more, "--merge-schema")
    assert ld.Table.open(tmp_path / "t").to_arrow().column_names[-1] == "extra"


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [("not parquet", "bad.parquet", "cannot be read as parquet"), ("x", "rows.txt", "--format")],
)
def test_files_that_cannot_be_read_are_named(tmp_path, content, name, message):
    (tmp_path / name).write_text(content)
    result = run("write", tmp_path / "t", tmp_path / name)
    assert result.exit_code == 1
    assert name in result.stderr
    assert message in result.stderr
    assert not (tmp_path / "t").exists()


def test_plain_output_for_a_pipe(tmp_path, sources):
    result = run("write", tmp_path / "t", sources / "rows.parquet")
    assert "version\t0" in result.stdout
    assert "rows\t2" in result.stdout


# --- files that are not what they seem


def test_json_with_escaped_characters_of_high_planes(tmp_path):
    rows = [{"n": at, "\U00020bb7": chr(0x20000 + at)} for at in range(50_000)]
    lines = [json.dumps(row) for row in rows]
    assert rb"\ud842\udfb7" in lines[0].encode()
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))  # more than is read at once
    written(tmp_path / "t", tmp_path / "rows.jsonl")
    assert ld.Table.open(tmp_path / "t").to_arrow().sort_by("n").to_pylist() == rows


def test_columns_that_appear_late_are_kept(tmp_path):
    lines = ['{"id": 1}'] * 20_000 + ['{"id": 2, "late": 3}']
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    written(tmp_path / "t", tmp_path / "rows.jsonl")
    assert ld.Table.open(tmp_path / "t").to_arrow().to_pylist()[-1] == {"id": 2, "late": 3}
    result = run("write", tmp_path / "t", tmp_path / "rows.jsonl", "--mode", "overwrite")
    assert result.exit_code == 0
    ld.Table.create(tmp_path / "narrow", "id bigint")
    result = run("write", tmp_path / "narrow", tmp_path / "rows.jsonl")
    assert result.exit_code == 1
    assert "'late': not in the table" in result.stderr


@pytest.mark.parametrize(
    ("columns", "row", "extra"),
    [
        ("s struct<a: int>", {"s": {"a": 1, "b": 2}}, "s.b"),
        ("l array<struct<a: int>>", {"l": [{"a": 1}, {"b": 2}]}, "l.element.b"),
        ("m map<string, struct<a: int>>", {"m": {"k": {"a": 1, "b": 2}}}, "m.value.b"),
    ],
)
def test_unknown_json_fields_are_refused_or_merged(tmp_path, columns, row, extra):
    table = ld.Table.create(tmp_path / "t", columns)
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    result = run("write", tmp_path / "t", tmp_path / "rows.jsonl")
    assert result.exit_code == 1
    assert f"{extra!r}: not in the table" in result.stderr
    written(tmp_path / "t", tmp_path / "rows.jsonl", "--merge-schema")
    assert "b: long" in str(table.snapshot().schema)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("late.csv", b"id\n" + b"1\n" * 600_000 + b"abc\n", "invalid value 'abc'"),
        ("latin.csv", "id,t\n1,\u00e9\n".encode("latin-1"), "'t' has strings that are not UTF-8"),
        ("mixed.jsonl", b'{"id": 1}\n{"id": "x"}\n', "field 'id'"),
        ("empty.jsonl", b"\n\n", "it has no rows"),
        ("list.json", b'[{"id": 1}]', "Expected JSON record to be an object"),
        ("cut.parquet", b"PAR1PAR1", "cannot be read as parquet"),
        ("deep.parquet", deepened(file_of(data_page()), 1000), "more than 100 levels deep"),
    ],
)
def test_files_that_fail_midway_are_named(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    result = run("write", tmp_path / "t", tmp_path / name)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {tmp_path / name}: cannot be read as")
    assert reason in result.stderr
    assert "unexpected" not in result.stderr
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("cut.parquet", "PAR1PAR1", "cannot be read as parquet"),
        ("rows.json", '[{"id": 1}]', "is not the JSON of a Delta schema"),
    ],
)
def test_a_file_without_a_schema_is_refused(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    result = run("create", tmp_path / "t", "--schema-from", tmp_path / name)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {tmp_path / name}: {reason}")
    assert "unexpected" not in result.stderr
