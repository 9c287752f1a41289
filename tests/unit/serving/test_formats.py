from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lazydelta.errors import ConfigError
from lazydelta.scan import Delivered
from lazydelta.serving.http_formats import ARROW, NDJSON, choose_format, encoder

BATCH = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", None]})


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, NDJSON),
        ("*/*", NDJSON),
        ("application/json", NDJSON),
        (ARROW, ARROW),
        (f"text/html, {ARROW};q=0.5, application/json;q=0.4", ARROW),
        (f"{ARROW};q=0.1, */*;q=0.2", NDJSON),
        (f"{ARROW};q=0, */*", NDJSON),
    ],
)
def test_the_format_follows_the_accept_header(accept, expected):
    assert choose_format(accept) == expected


@pytest.mark.parametrize("accept", ["image/png", "", f"{ARROW};q=0", "x" * 1000])
def test_a_client_that_accepts_neither_format_is_refused(accept):
    if accept == "":
        assert choose_format(accept) == NDJSON
        return
    with pytest.raises(ConfigError, match="Accept: must allow"):
        choose_format(accept)


def test_json_has_a_line_per_row_then_the_token_then_the_end():
    form = encoder(NDJSON, BATCH.schema)
    body = form.start() + form.batch(Delivered(BATCH, "token")) + form.end({"rows": 2})
    assert body.decode().splitlines() == [
        '{"id":1,"name":"a"}',
        '{"id":2,"name":null}',
        '{"resume":"token"}',
        '{"end":true,"rows":2}',
    ]


def test_values_of_all_types_are_json():
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "long": [2**63 - 1],
            "decimal": pa.array([Decimal("12345678901234567.89")], pa.decimal128(38, 2)),
            "date": [date(2026, 1, 2)],
            "instant": pa.array([moment], pa.timestamp("us", "UTC")),
            "local": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
            "binary": [b"\x00\xff"],
            "nan": [float("nan")],
            "list": [[1, None]],
            "struct": [{"a": None}],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "text": ['"\n\u2028\u0000'],
        }
    )
    line = encoder(NDJSON, batch.schema).batch(Delivered(batch, "x")).split(b"\n")[0]
    assert b'"decimal":12345678901234567.89' in line
    assert json.loads(line) == {
        "long": 2**63 - 1,
        "decimal": 12345678901234567.89,
        "date": "2026-01-02",
        "instant": "2026-01-02T03:04:05.678901Z",
        "local": "2026-01-02T03:04:05.678901",
        "binary": "00ff",
        "nan": None,
        "list": [1, None],
        "struct": {"a": None},
        "map": {"k": 1},
        "text": '"\n\u2028\u0000',
    }


def test_maps_whose_keys_are_no_strings_are_arrays_of_pairs():
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "map": pa.array([[(1, [{"a": b"\x01"}])]], pa.map_(pa.int32(), pa.list_(pa.struct([("a", pa.binary())])))),
            "decimal": pa.array([Decimal("1.20")], pa.decimal128(10, 2)),
            "instant": pa.array([moment], pa.timestamp("us", "UTC")),
        }
    )  # fmt: skip
    assert encoder(NDJSON, batch.schema).batch(Delivered(batch, "x")).splitlines()[0] == (
        b'{"map":[[1,[{"a":"01"}]]],"decimal":1.20,"instant":"2026-01-02T03:04:05Z"}'
    )


@pytest.mark.parametrize("name", ["resume", "end", "error"])
def test_columns_that_look_like_control_lines_need_arrow(name):
    schema = pa.schema([(name, pa.string())])
    with pytest.raises(ConfigError, match=f"columns: has '{name}'"):
        encoder(NDJSON, schema)
    encoder(ARROW, schema)


def test_an_arrow_stream_has_tokens_and_an_explicit_end():
    form = encoder(ARROW, BATCH.schema)
    body = form.start() + form.batch(Delivered(BATCH, "token")) + form.end({"rows": 2})
    reader = pa.ipc.open_stream(io.BytesIO(body))
    batch, metadata = reader.read_next_batch_with_custom_metadata()
    assert (batch.equals(BATCH), dict(metadata)) == (True, {b"resume": b"token"})
    batch, metadata = reader.read_next_batch_with_custom_metadata()
    assert (batch.num_rows, dict(metadata)) == (0, {b"end": b"true", b"rows": b"2"})
    assert body.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")
    assert form.error({"error": "x"}) is None
