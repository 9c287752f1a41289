"""Pruning never drops a file that holds a row the predicate wants."""

from __future__ import annotations

import os

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazydelta.expr import as_predicate
from lazydelta.replay import Pruner
from tests.property.skip_cases import (
    PARTITION_COLUMNS,
    PREDICATES,
    SCHEMA,
    files,
    has_match,
    partition_text,
    stats_text,
)

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_EXAMPLES", "300"))
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def to_adds(batch):
    maps = [[(k, partition_text(v)) for k, v in file.partition.items()] for file in batch]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(maps, pa.map_(pa.string(), pa.string())),
            pa.array([stats_text(file.stats) for file in batch], pa.string()),
        ],
        names=["partitionValues", "stats"],
    )


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=RELAXED)
@given(st.lists(files(), min_size=1, max_size=3), PREDICATES)
def test_no_file_with_a_matching_row_is_dropped(batch, predicate):
    pruner = Pruner.build(
        as_predicate(predicate),
        schema=SCHEMA,
        partition_columns=PARTITION_COLUMNS,
        mapping_mode="none",
    )
    mask = pruner.mask(to_adds(batch))
    kept = [True] * len(batch) if mask is None else mask.to_pylist()
    for file, keep in zip(batch, kept, strict=True):
        assert keep or not has_match(predicate, file), f"{predicate}\n{pruner.rule}"
