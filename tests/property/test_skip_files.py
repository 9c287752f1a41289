"""Data skipping never drops a file with a matching row."""

from __future__ import annotations

import os

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner
from tests.property.skip_cases import (
    PARTITION_COLUMNS,
    ROW_PREDICATES,
    SCHEMA,
    make_files,
    matches,
    partition_text,
    stats_text,
)

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_EXAMPLES", "300"))


def to_adds(batch):
    maps = [[(k, partition_text(v)) for k, v in file.partition.items()] for file in batch]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(maps, pa.map_(pa.string(), pa.string())),
            pa.array([stats_text(file.stats) for file in batch], pa.string()),
        ],
        names=["partitionValues", "stats"],
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**32), ROW_PREDICATES)
def test_no_file_with_a_matching_row_is_dropped(seed, predicate):
    batch = make_files(seed, 24)
    pruner = Pruner.build(
        as_predicate(predicate),
        schema=SCHEMA,
        partition_columns=PARTITION_COLUMNS,
        mapping_mode="none",
        generated=True,
    )
    mask = pruner.mask(to_adds(batch))
    kept = [True] * len(batch) if mask is None else mask.to_pylist()
    wanted = matches(predicate, batch)
    lost = [file for file, keep, want in zip(batch, kept, wanted, strict=True) if want and not keep]
    assert not lost, f"{predicate}\n{pruner.rule}\n{lost[0]}"


def test_most_files_without_a_match_are_dropped():
    """Most files without a matching row are dropped."""
    batch = make_files(7, 400)
    adds = to_adds(batch)
    for predicate, least in [
        ("i = 2", 0.5),
        ("p = 1", 0.9),
        ("l IN (1, 2)", 0.3),
        ("d < '2026-01-01'", 0.5),
        ("s LIKE 'b%'", 0.5),
        ("t = '2026-03-01'", 0.5),
        ("x < -1000", 0.5),
    ]:
        pruner = Pruner.build(
            as_predicate(predicate),
            schema=SCHEMA,
            partition_columns=PARTITION_COLUMNS,
            mapping_mode="none",
            generated=True,
        )
        dropped = len(batch) - pruner.mask(adds).true_count
        hopeless = matches(predicate, batch).count(False)
        assert dropped >= least * hopeless, f"{predicate}: {dropped} of {hopeless}"
