"""Row group filtering of checkpoints never drops a matching add."""

from __future__ import annotations

import os
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner
from lazydelta.schema import to_arrow_schema
from tests.property.skip_cases import (
    PARTITION_COLUMNS,
    ROW_PREDICATES,
    SCHEMA,
    make_files,
    matches,
    partition_text,
    stats_text,
)

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_EXAMPLES", "200"))

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
    """Return a decimal that was serialized as a double in its column type, if it fits."""
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


def checkpoint(seed):
    """Write a checkpoint of 16 adds and some removes, in small row groups."""
    chance = Random(seed)
    files = make_files(seed, 16)
    rows = [file if chance.random() < 0.85 else None for file in files]
    ordered = sorted(rows, key=lambda file: (file is None, file and (file.rows[0]["i"] or 0)))
    rows = ordered if chance.random() < 0.5 else rows  # clustered, so that row groups differ
    table = pa.Table.from_pylist(
        [_row(at, file, chance.random() < 0.9) for at, file in enumerate(rows)], schema=_CHECKPOINT
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=chance.randint(1, 4), use_dictionary=False)
    return rows, pq.ParquetFile(pa.BufferReader(sink.getvalue()))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**32), ROW_PREDICATES)
def test_no_row_group_or_row_with_a_matching_file_is_dropped(seed, predicate):
    rows, parquet = checkpoint(seed)
    pruner = Pruner.build(
        as_predicate(predicate),
        schema=SCHEMA,
        partition_columns=PARTITION_COLUMNS,
        mapping_mode="none",
        generated=True,
    )
    metadata = parquet.metadata
    available = {metadata.schema.column(at).path for at in range(metadata.num_columns)}
    leaves = ["add.path", *pruner.checkpoint_leaves(available)]
    found = set()
    groups = pruner.keep_row_groups(metadata)
    if groups:
        adds = parquet.read_row_groups(groups, columns=leaves).column("add").combine_chunks()
        batch = pa.RecordBatch.from_struct_array(adds.filter(adds.is_valid()))
        mask = pruner.mask(batch)
        found = set((batch if mask is None else batch.filter(mask)).column("path").to_pylist())
    files = [(at, file) for at, file in enumerate(rows) if file is not None]
    truth = matches(predicate, [file for _, file in files])
    wanted = {f"file-{at}" for (at, _), want in zip(files, truth, strict=True) if want}
    assert wanted <= found, f"{predicate}\n{pruner.rule}\n{pruner.row_groups}"
