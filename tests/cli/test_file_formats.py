"""Any value of a log round-trips through the file formats, and stays on its line."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.cli import file_formats
from lazydelta.cli.output import visible

VECTOR = pa.struct([("storage_type", pa.string()), ("cardinality", pa.int64())])
SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modification_time", pa.timestamp("ms", "UTC")),
        ("partition_values", pa.map_(pa.string(), pa.string())),
        ("deletion_vector", VECTOR),
        ("version", pa.int64()),
    ]
)

strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ints = st.integers(-(2**63), 2**63 - 1)
files = st.lists(
    st.fixed_dictionaries(
        {
            "path": strings,
            "size": ints,
            "modification_time": st.none() | st.integers(0, 4_102_444_800_000),
            "partition_values": st.none()
            | st.dictionaries(strings, st.none() | strings, max_size=3).map(
                lambda d: list(d.items())
            ),
            "deletion_vector": st.none()
            | st.fixed_dictionaries({"storage_type": strings, "cardinality": ints}),
            "version": st.none() | ints,
        }
    ),
    min_size=1,
    max_size=5,
)


def batch_of(found):
    return pa.RecordBatch.from_pylist(found, SCHEMA)


def lines(data):
    text = data.decode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


@given(files, st.integers(0, 4))
def test_json_round_trips_the_files(found, start):
    batch = batch_of(found).slice(min(start, len(found) - 1))
    printed = [json.loads(line) for line in lines(file_formats.ndjson(batch))]
    expected = batch.drop_columns(["modification_time"]).to_pylist()
    for row in expected:
        pairs = row["partition_values"]
        row["partition_values"] = None if pairs is None else dict(pairs)
    times = [row.pop("modification_time") for row in printed]
    assert printed == expected
    assert [time is None for time in times] == batch["modification_time"].is_null().to_pylist()


@given(files)
def test_csv_round_trips_the_files(found):
    batch = batch_of(found)
    text = (file_formats.csv_header(batch) + file_formats.csv(batch)).decode()
    printed = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["path"] for row in printed] == batch["path"].to_pylist()
    assert [int(row["size"]) for row in printed] == batch["size"].to_pylist()
    for row, pairs in zip(printed, batch["partition_values"].to_pylist(), strict=True):
        values = json.loads(row["partition_values"]) if row["partition_values"] else None
        assert values == (None if pairs is None else dict(pairs))


@given(files)
def test_a_tab_separated_line_is_one_file_with_six_fields(found):
    printed = [line.split("\t") for line in lines(file_formats.tsv(batch_of(found)))]
    assert [len(row) for row in printed] == [6] * len(found)
    assert [row[0] for row in printed] == [visible(file["path"]) for file in found]


@given(files)
def test_a_terminal_line_has_no_control_character(found):
    printed = lines(file_formats.human(batch_of(found)))
    assert len(printed) == len(found)
    assert all(visible(line) == line for line in printed)


@pytest.mark.parametrize(
    "character", ["\n", "\t", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\0"]
)
def test_a_path_cannot_emit_escape_sequences(character):
    file = dict.fromkeys(SCHEMA.names) | {"path": f"a{character}[2Jb", "size": 1}
    for style in (file_formats.human, file_formats.tsv):
        text = style(batch_of([file])).decode()
        assert character not in text.replace("\t", "", 5).rstrip("\n")
        assert "a\\" in text


def test_times_are_iso_8601():
    file = dict.fromkeys(SCHEMA.names) | {"path": "a", "size": 1, "modification_time": 1}
    assert (
        json.loads(file_formats.ndjson(batch_of([file])))["modification_time"]
        == "1970-01-01T00:00:00.001Z"
    )
    assert "1970-01-01 00:00" in file_formats.human(batch_of([file])).decode()


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ('{"numRecords":1}', {"numRecords": 1}),
        ('{"numRecords":\n 1}', {"numRecords": 1}),
        ("not json", "not json"),
        ('{"a": "x"} {"injected": 1}', '{"a": "x"} {"injected": 1}'),
        (None, None),
    ],
)
def test_statistics_are_embedded_only_where_they_are_json(stats, expected):
    batch = pa.RecordBatch.from_pydict({"path": ["a"], "stats": pa.array([stats], pa.string())})
    [line] = lines(file_formats.ndjson(batch))
    assert json.loads(line) == {"path": "a", "stats": expected}


def test_an_empty_batch_prints_nothing():
    empty = batch_of([])
    assert (
        file_formats.ndjson(empty)
        == file_formats.tsv(empty)
        == file_formats.csv(empty)
        == file_formats.human(empty)
        == b""
    )
