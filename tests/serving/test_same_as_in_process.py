"""Every golden table has the same files and rows over HTTP as in process."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lazydelta.errors import DeltaError
from lazydelta.scan import Delivered
from lazydelta.serving import error_kind
from lazydelta.serving.http_formats import encoder
from tests.golden_pack import NEEDS_PACK
from tests.serving.golden import (
    CAPABILITIES,
    ENTRIES,
    MOST_ROWS,
    REST,
    SOME,
    TABLES,
    in_process,
    is_same,
)
from tests.serving.support import ARROW, NDJSON, arrow_batches, get, json_batches

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]

PARAMETERS = {"rows": {"limit": MOST_ROWS}, "files": {"capabilities": ",".join(CAPABILITIES)}}


def read(server, name, mode, accept, **more):
    """Return the batches of a complete answer, each with its token."""
    path = f"/v1/tables/{name}/{mode}"
    status, _, body = get(server, path, headers={"accept": accept}, **PARAMETERS[mode], **more)
    assert status == 200, body
    batches, end = arrow_batches(body) if accept == ARROW else json_batches(body)
    assert end is not None
    assert "end" in end, end
    return batches


def check_refused(server, name, mode, expected):
    """Compare the error of an answer, or of its end, with the one in process."""
    status, _, body = get(server, f"/v1/tables/{name}/{mode}", **PARAMETERS[mode])
    document = json.loads(body.splitlines()[-1])
    assert (status >= 400) or "error" in document
    if ENTRIES[name]["kind"] != "plan_only":  # which of several missing files is first varies
        assert document["error"] == error_kind(expected)


def check_arrow(servers, name, mode, expected):
    """Compare a stream, and what the other server continues after each of its batches."""
    batches = read(servers[0], name, mode, ARROW)
    assert is_same(as_table(batches, expected), expected)
    done = 0
    for batch, token in batches:
        done += batch.num_rows
        rest = read(servers[1], name, mode, ARROW, resume=token)
        assert is_same(as_table(rest, expected), expected.slice(done)), done
    return 1 + len(batches)


def as_table(batches, expected):
    return pa.Table.from_batches([batch for batch, _ in batches], expected.schema)


def check_json(servers, name, mode, expected):
    """Compare the lines of a stream that breaks after its first batch."""
    batches = read(servers[0], name, mode, NDJSON)
    lines = [line for rows, _ in batches for line in rows]
    assert lines == as_json(expected)
    for rows, token in batches[:1]:
        rest = read(servers[1], name, mode, NDJSON, resume=token)
        assert rows + [line for more, _ in rest for line in more] == lines
    return 1 + len(batches[:1])


def as_json(table):
    form = encoder(NDJSON, table.schema)
    body = b"".join(form.batch(Delivered(batch, "")) for batch in table.to_batches())
    return [line for line in map(json.loads, body.splitlines()) if line.keys() != {"resume"}]


@pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(name, marks=pytest.mark.long) for name in REST)], ids=TABLES.get
)
def test_another_process_continues_after_each_batch(golden_servers, name, record_property):
    compared = 0
    for mode in PARAMETERS:
        expected = in_process(name, mode)
        if isinstance(expected, DeltaError):
            check_refused(golden_servers[0], name, mode, expected)
            compared += 1
        else:
            compared += check_arrow(golden_servers, name, mode, expected)
            compared += check_json(golden_servers, name, mode, expected)
    record_property("comparisons", compared)
