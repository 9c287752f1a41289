"""Pruning by a checkpoint's footer never drops a row group that holds a matching add."""

from __future__ import annotations

import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazydelta.expr import as_predicate
from lazydelta.replay import Pruner
from lazydelta.schema import to_arrow_schema
from tests.property.skip_cases import (
    PARTITION_COLUMNS,
    PREDICATES,
    SCHEMA,
    files,
    has_match,
    partition_text,
    stats_text,
)

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_EXAMPLES", "200"))
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

_ROWS = to_arrow_schema(SCHEMA)
_DATA = [_ROWS.field(name) for name in _ROWS.names if name not in PARTITION_COLUMNS]
_COUNTS = [
    pa.field(f.name, pa.struct([("k", pa.int64())]) if f.name == "st" else pa.int64())
    for f in _DATA
]
_STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct(_DATA)),
        ("maxValues", pa.struct(_DATA)),
        ("nullCount", pa.struct(_COUNTS)),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("partitionValues_parsed", pa.struct([_ROWS.field(name) for name in PARTITION_COLUMNS])),
        ("stats", pa.string()),
        ("stats_parsed", _STATS),
    ]
)
_CHECKPOINT = pa.schema([("add", _ADD), ("remove", pa.struct([("path", pa.string())]))])


def _parsed(file):
    if not file.typed:
        return None
    result = {"numRecords": file.typed["numRecords"]}
    for group in ("minValues", "maxValues", "nullCount"):
        given = file.typed[group]
        values = {name: _fitted(value) for name, value in given.items() if name != "st.k"}
        if "st.k" in given:
            values["st"] = {"k": given["st.k"]}
        result[group] = values
    return result


def _fitted(value):
    """Fit a decimal that a writer kept as a double into its column again, if it fits."""
    if not isinstance(value, Decimal):
        return value
    return value.quantize(Decimal("0.0001")) if abs(value) < Decimal(10) ** 21 else None


def _row(at, file, typed):
    if file is None:
        return {"add": None, "remove": {"path": f"gone-{at}"}}
    values = [(name, partition_text(value)) for name, value in file.partition.items()]
    add = {
        "path": f"file-{at}",
        "partitionValues": values,
        "partitionValues_parsed": file.partition,
        "stats": stats_text(file.stats),
        "stats_parsed": _parsed(file) if typed else None,
    }
    return {"add": add, "remove": None}


@st.composite
def checkpoints(draw):
    rows = draw(st.lists(st.one_of(files(), files(), st.none()), min_size=1, max_size=7))
    typed = [draw(st.integers(0, 6)) > 0 for _ in rows]
    table = pa.Table.from_pylist(
        [_row(at, *item) for at, item in enumerate(zip(rows, typed, strict=True))], schema=_CHECKPOINT
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=draw(st.integers(1, 3)), use_dictionary=False)
    return rows, pq.ParquetFile(pa.BufferReader(sink.getvalue()))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=RELAXED)
@given(checkpoints(), PREDICATES)
def test_no_row_group_or_row_with_a_matching_file_is_dropped(checkpoint, predicate):
    rows, parquet = checkpoint
    pruner = Pruner.build(
        as_predicate(predicate),
        schema=SCHEMA,
        partition_columns=PARTITION_COLUMNS,
        mapping_mode="none",
    )
    metadata = parquet.metadata
    kept = pruner.keep_row_groups(metadata)
    available = {metadata.schema.column(at).path for at in range(metadata.num_columns)}
    leaves = ["add.path", *pruner.checkpoint_leaves(available)]
    found = set()
    for group in kept:
        adds = parquet.read_row_group(group, columns=leaves).column("add").combine_chunks()
        adds = adds.filter(adds.is_valid())
        batch = pa.RecordBatch.from_struct_array(adds)
        mask = pruner.mask(batch)
        found |= set((batch if mask is None else batch.filter(mask)).column("path").to_pylist())
    wanted = {f"file-{at}" for at, file in enumerate(rows) if file and has_match(predicate, file)}
    assert wanted <= found, f"{predicate}\n{pruner.rule}\n{pruner.row_groups}"
