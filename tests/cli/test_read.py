"""`head`, `count`, `partitions`, `schema`, `changes` and `sql`: what they print, and how they refuse."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.support import run, start
from tests.cli.test_terminal import on_a_terminal
from tests.unit.changes.support import FeedTable
from tests.unit.scan.read.tables import Rows, field


@pytest.fixture
def table(tmp_path):
    """Ten rows; then one updated with a change file, then two files of it removed."""
    table = FeedTable(
        tmp_path / "t", {"id": "long", "note": "string", "day": "date"}, partition_by=["day"]
    )
    day = {"day": "2026-01-31"}
    ids = list(range(10))
    notes = ["tab\there", None, 'quo"te', *"defghij"]
    table.commit(table.add("a", {"id": ids, "note": notes}, values=day), at_ms=1_700_000_000_000)
    cdc_columns = {
        "id": [1, 1],
        "note": [None, "new"],
        "_change_type": ["update_preimage", "update_postimage"],
    }
    table.commit(
        table.remove("a", values=day),
        table.add("b", {"id": ids, "note": [notes[0], "new", *notes[2:]]}, values=day),
        table.cdc("c", cdc_columns, values=day),
        at_ms=1_700_000_001_000,
    )
    table.commit(table.remove("b", values=day), at_ms=1_700_000_002_000)
    table.commit(
        table.add("e", {"id": [42], "note": ["end"]}, values={"day": None}), at_ms=1_700_000_003_000
    )
    return tmp_path / "t"


def good(*args):
    done = run(*args)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def test_head_in_a_pipe(table):
    lines = good("head", table, "--version", 0, "-n", 3).splitlines()
    assert lines == [
        "0\ttab\\there\t2026-01-31",
        "1\t\t2026-01-31",
        '2\tquo"te\t2026-01-31',
    ]


def test_head_takes_ten_by_default_and_any_number(table):
    assert len(good("head", table, "--version", 0).splitlines()) == 10
    assert good("head", table, "-n", 0) == ""
    assert len(good("head", table, "--version", 1, "-n", 99).splitlines()) == 10


def test_head_as_json(table):
    assert objects(good("head", table, "--json")) == [{"id": 42, "note": "end", "day": None}]


def test_head_as_csv_has_a_header_even_without_rows(table):
    assert good("head", table, "--csv") == 'id,note,day\n42,"end",\n'
    assert good("head", table, "--csv", "--where", "id = 7") == "id,note,day\n"


def test_head_of_columns_that_match(table):
    text = good("head", table, "--version", 0, "--where", "id > 7", "--columns", "note,id")
    assert text == "i\t8\nj\t9\n"


def test_head_by_time(table):
    text = good("head", table, "--timestamp", "2023-11-14T22:13:21Z", "--where", "id = 1")
    assert text == "1\tnew\t2026-01-31\n"


def test_head_to_parquet(table, tmp_path):
    out = tmp_path / "out.parquet"
    done = run("head", table, "--parquet", out)
    assert done.stdout == ""
    assert done.stderr == f"1 row in {out}\n"
    assert pq.read_table(out).to_pylist() == [{"id": 42, "note": "end", "day": None}]


def test_parquet_does_not_replace_a_file(table, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_text("precious")
    done = run("head", table, "--parquet", out)
    assert done.exit_code == 1
    assert "exists already" in done.stderr
    assert out.read_text() == "precious"


def test_parquet_is_not_left_half_written(table, tmp_path):
    (table / "e").unlink()
    out = tmp_path / "out.parquet"
    done = run("head", table, "--parquet", out)
    assert done.exit_code == 1
    assert "e does not exist" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    "both", [("--csv", "--json"), ("--csv", "--parquet", "x"), ("--json", "--parquet", "x")]
)
def test_output_formats_exclude_each_other(table, both):
    done = run("head", table, *both)
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr


def test_count(table):
    assert good("count", table) == "1\n"
    assert good("count", table, "--version", 1, "--where", "id >= 5") == "5\n"
    assert json.loads(good("count", table, "--json", "--version", 1)) == {"version": 1, "rows": 10}


def test_partitions(tmp_path):
    fields = [field("day", "date"), field("id", "long")]
    table = Rows(tmp_path / "table", fields, partition_columns=["day"])
    for at, day in enumerate(["2026-01-02", None, "2026-01-01", "2026-01-02"]):
        table.file(f"f{at}", pa.table({"id": [at]}), partition={"day": day})
    table.commit()
    assert good("partitions", table.path) == "2026-01-01\n2026-01-02\n\n"
    assert objects(good("partitions", table.path, "--json", "--where", "id > 2")) == [
        {"day": "2026-01-02"}
    ]


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_partitions_of_a_table_without_partition_columns_are_none(tmp_path, form):
    table = Rows(tmp_path / "table", [field("id", "long")]).commit()
    assert good("partitions", table.path, *form) == ""


def test_schema_as_a_tree(tmp_path):
    table = FeedTable(tmp_path)
    inner = {
        "type": "struct",
        "fields": [{"name": "x\n", "type": "long", "nullable": False, "metadata": {}}],
    }
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in {
            "id": "decimal(10,2)",
            "tags": {"type": "array", "elementType": "string", "containsNull": True},
            "parts": {"type": "array", "elementType": inner, "containsNull": False},
            "by": {
                "type": "map",
                "keyType": "string",
                "valueType": inner,
                "valueContainsNull": True,
            },
        }.items()
    ]
    table.log.metadata = table.metadata(fields=fields)["metaData"]
    table.commit()
    assert good("schema", tmp_path).splitlines() == [
        "id: decimal(10,2)",
        "tags: array<string>",
        "parts: array",
        "  element: struct not null",
        "    x\\n: long not null",
        "by: map",
        "  key: string not null",
        "  value: struct",
        "    x\\n: long not null",
    ]
    assert good("schema", tmp_path, "--json").strip() == table.log.metadata["schemaString"]


def test_schema_as_arrow_and_of_partitions(table):
    assert good("schema", table).splitlines()[2] == "day: date  (partition)"
    assert good("schema", table, "--arrow").splitlines() == [
        "id: int64",
        "note: string",
        "day: date32[day]",
    ]
    assert run("schema", table, "--arrow", "--json").exit_code == 2


def test_changes_as_json(table):
    found = objects(
        good("changes", table, "--starting-version", 1, "--ending-version", 1, "--json")
    )
    assert [(row["_change_type"], row["id"], row["note"]) for row in found] == [
        ("update_preimage", 1, None),
        ("update_postimage", 1, "new"),
    ]
    assert found[0]["_commit_timestamp"] == "2023-11-14T22:13:21.000000Z"


def test_changes_in_a_pipe(table):
    text = good(
        "changes", table, "--starting-version", 3, "--columns", "id,_change_type,_commit_version"
    )
    assert text == "42\tinsert\t3\n"


def test_changes_by_time_and_where(table):
    at = "2023-11-14T22:13:22Z"
    text = good(
        "changes", table, "--starting-timestamp", at, "--ending-timestamp", at,
        "--where", "_change_type = 'delete' and id < 2", "--columns", "id",
    )  # fmt: skip
    assert text == "0\n1\n"


def test_changes_up_to_a_limit(table):
    assert len(good("changes", table, "-n", 3).splitlines()) == 3
    assert good("changes", table, "-n", 0) == ""
    assert len(good("changes", table, "--limit", 1000).splitlines()) == 23


def test_changes_past_the_end(table):
    done = run("changes", table, "--ending-version", 9)
    assert done.exit_code == 1
    assert "Readable versions: 0 to 3" in done.stderr
    assert (
        good(
            "changes",
            table,
            "--starting-version",
            3,
            "--ending-version",
            9,
            "--allow-out-of-range",
            "--columns",
            "id",
        )
        == "42\n"
    )


def test_changes_take_a_version_or_a_time(table):
    done = run("changes", table, "--starting-version", 1, "--starting-timestamp", "2023-11-14")
    assert done.exit_code == 2


def test_changes_of_a_table_without_them(tmp_path):
    table = FeedTable(tmp_path, configuration={"delta.enableChangeDataFeed": "false"})
    table.commit(table.add("a", {"id": [1]}))
    done = run("changes", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert "delta.enableChangeDataFeed=true" in done.stderr


def test_changes_on_a_terminal(table):
    text = on_a_terminal(
        "changes", table, "--starting-version", 3, "--columns", "id,note,_change_type"
    )
    lines = [line.split() for line in text.splitlines() if line.strip()]
    assert lines[0] == ["id", "note", "_change_type"]
    assert lines[-1] == ["42", "end", "insert"]
    assert "no rows" in on_a_terminal("changes", table, "--where", "id < 0")


def test_many_rows_on_a_terminal_are_several_tables(tmp_path):
    table = FeedTable(tmp_path)
    table.commit(table.add("a", {"id": pa.array(range(2500))}))
    text = on_a_terminal("head", tmp_path, "-n", 2500)
    cells = [line.strip() for line in text.splitlines()]
    assert cells.count("id") == 3
    assert [int(cell) for cell in cells if cell.isdecimal()] == list(range(2500))


def test_a_closed_pipe_ends_the_command(tmp_path):
    table = FeedTable(tmp_path)
    table.commit(table.add("a", {"id": pa.array(range(300_000))}))
    with start("changes", tmp_path) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_sql(table):
    pytest.importorskip("duckdb")
    query = "select a.id, count(*) as n from now a, older o where o.id > 6 group by a.id"
    text = good("sql", query, "--table", f"now={table}", "--table", f"older@1={table}", "--json")
    assert objects(text) == [{"id": 42, "n": 3}]


def test_invalid_sql(table):
    pytest.importorskip("duckdb")
    done = run("sql", "select nope from t", "--table", f"t={table}")
    assert done.exit_code == 1
    assert "nope" in done.stderr
    assert run("sql", "select 1; select 2").exit_code == 1
    assert run("sql", "select 1", "--table", "t").exit_code == 2
    assert run("sql", "select 1", "--table", f"t@new={table}").exit_code == 2


def test_sql_without_an_engine(table, monkeypatch):
    from lazydelta.interop import query

    monkeypatch.setattr(query, "find_spec", lambda name: None)
    done = run("sql", "select 1", "--table", f"t={table}")
    assert done.exit_code == 1
    assert "pip install" in done.stderr
