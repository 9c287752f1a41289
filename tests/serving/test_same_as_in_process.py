from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.config import ReadOptions
from lazydelta.errors import DeltaError
from lazydelta.scan import Delivered, FileRecords
from lazydelta.serving.http_formats import encoder
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables
from tests.serving.support import ARROW, NDJSON, arrow_batches, get, json_batches, running

CAPABILITIES = ("columnMapping", "deletionVectors", "typeWidening", "variantType")
CONFIG = Config(batch_rows=3, read=ReadOptions(batch_rows=7))
LIMITS = {"batch_files": 3, "batch_rows": 7}
SOME = (
    *("dat__with_checkpoint", "dat__multi_partitioned", "dat__column_mapping"),
    *("dat__all_primitive_types", "dat__nested_types", "delta-golden__checkpoint"),
    *("delta-golden__basic-with-inserts-merge", "delta-golden__log-replay-dv-key-cases"),
)
BREAKS_AT_MOST = 40
MOST_ROWS = 700

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]


def names():
    every = [entry.get("name") or entry["id"] for entry in golden_tables()]
    fast = [name for name in every if name in SOME]
    rest = [pytest.param(name, marks=pytest.mark.long) for name in every if name not in SOME]
    return fast + rest


@pytest.fixture(scope="module")
def servers():
    """Two servers of all golden tables, which share the key of resume tokens."""
    tables = {path.name.replace("+", "_"): str(path) for path in (PACK / "tables").iterdir()}
    settings = {"limits": LIMITS, "resume_key": b"shared"}
    with running(tables, **settings) as one, running(tables, **settings) as other:
        yield one, other


def in_process(name, mode):
    """Return what the engine reads in this process."""
    table = Table.open(PACK / "tables" / name, config=CONFIG)
    if mode == "rows":
        return table.scan(limit=MOST_ROWS, strategy="reverse").to_arrow()
    scan = table.scan(strategy="reverse")
    records = FileRecords(capabilities=frozenset(CAPABILITIES))
    with scan.resumable_files(records=records) as delivered:
        batches = [batch for batch, _ in delivered]
    assert sum(batch.num_rows for batch in batches) == len(list(scan.files()))
    return pa.Table.from_batches(batches, scan.file_record_schema(records))


def parameters(mode):
    return {"limit": MOST_ROWS} if mode == "rows" else {"capabilities": ",".join(CAPABILITIES)}


def with_breaks(servers, name, mode, accept):
    """Read one batch at a time, each at the other server; return batches and the last end."""
    batches, token, turn = [], {}, 0
    while True:
        path = f"/v1/tables/{name.replace('+', '_')}/{mode}"
        status, _, body = get(
            servers[turn % 2], path, headers={"accept": accept}, **parameters(mode), **token
        )
        assert status == 200, body
        found, end = arrow_batches(body) if accept == ARROW else json_batches(body)
        assert end is not None
        if not found:
            return batches
        if turn >= BREAKS_AT_MOST:
            return batches + [batch for batch, _ in found]
        batches.append(found[0][0])
        token, turn = {"resume": found[0][1]}, turn + 1


@pytest.mark.parametrize("mode", ["files", "rows"])
@pytest.mark.parametrize("name", names())
def test_a_broken_and_resumed_stream_is_the_same_in_both_formats(servers, name, mode):
    try:
        expected = in_process(name, mode)
    except DeltaError as error:
        answer = get(servers[0], f"/v1/tables/{name.replace('+', '_')}/{mode}", **parameters(mode))
        assert (type(error).__name__ in answer[2].decode()) or answer[0] >= 400
        return
    batches = with_breaks(servers, name, mode, ARROW)
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)
    lines = [line for rows in with_breaks(servers, name, mode, NDJSON) for line in rows]
    assert lines == as_json(expected)


def as_json(table):
    form = encoder(NDJSON, table.schema)
    body = b"".join(form.batch(Delivered(batch, "")) for batch in table.to_batches())
    return [line for line in map(json.loads, body.splitlines()) if line.keys() != {"resume"}]
