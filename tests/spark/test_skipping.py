"""`apply_data_skipping`: executors keep the files that the pruner keeps in one process."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazydelta import Table
from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.spark import apply_data_skipping, distributed_log_replay
from tests.builders import TableBuilder, add
from tests.property.skip_cases import PARTITION_COLUMNS, SCHEMA, make_files, matches
from tests.property.test_skip_files import to_adds
from tests.property.test_skip_row_groups import checkpoint
from tests.spark.cases import frame_of, interpreting, predicates, pruner_of

# Read at import: the fixtures hide `LAZYDELTA_*` from the tests themselves.
EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_SPARK_EXAMPLES", "2"))
TABLE = SimpleNamespace(
    schema=SCHEMA,
    partition_columns=PARTITION_COLUMNS,
    column_mapping_mode="none",
    generates_columns=True,
)


def parsed_adds(seed):
    """Return files and their adds with parsed statistics, some of them null, and JSON."""
    rows, parquet = checkpoint(seed)
    column = parquet.read(["add"]).column("add").combine_chunks()
    adds = pa.RecordBatch.from_struct_array(column.drop_null())
    return [file for file in rows if file is not None], adds


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), predicates(6), st.booleans())
def test_executors_keep_the_files_that_one_process_keeps(spark, seed, wheres, parsed):
    files = make_files(seed, 40)
    files, adds = parsed_adds(seed) if parsed else (files, to_adds(files))
    frame = frame_of(interpreting(spark), adds)  # in another time zone
    kept = [apply_data_skipping(frame, TABLE, where).select("at") for where in wheres]
    found = [sorted(row.at for row in one.collect()) for one in kept]
    for where, at in zip(wheres, found, strict=True):
        mask = pruner_of(where).mask(adds)
        expected = [True] * adds.num_rows if mask is None else mask.to_pylist()
        assert at == [n for n, keep in enumerate(expected) if keep], where
        assert not [n for n, match in enumerate(matches(where, files)) if match and n not in at]


def test_files_of_a_replay_keep_all_their_columns(spark, tmp_path):
    builder = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    for day in range(1, 7):
        stats = {"numRecords": 5, "minValues": {"id": day * 10}, "maxValues": {"id": day * 10 + 9}}
        values = {"day": f"2026-01-0{day}"}
        builder.commit(add(f"f{day}", stats=stats, partition_values=values, tags={"d": str(day)}))
        if day == 3:
            builder.checkpoint(stats_parsed=True, partition_values_parsed=True)
    snapshot = Table.open(tmp_path).snapshot()
    live = distributed_log_replay(spark, snapshot)
    found = apply_data_skipping(live, snapshot, "day > '2026-01-02' AND id IN (15, 35, 55)")
    assert found.columns == live.columns
    assert sorted((row.path, row.tags["d"]) for row in found.collect()) == [
        ("f3", "3"),
        ("f5", "5"),
    ]
    assert apply_data_skipping(live, snapshot, None) is live
    assert apply_data_skipping(live, snapshot, "id = 1 AND FALSE").count() == 0


def test_an_invalid_predicate_is_refused_by_the_driver(spark):
    frame = spark.range(1)
    with pytest.raises(ColumnNotFoundError):
        apply_data_skipping(frame, TABLE, "nope = 1")
    with pytest.raises(PredicateError):
        apply_data_skipping(frame, TABLE, "s = 1")
