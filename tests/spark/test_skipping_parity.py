"""One meaning: executors keep the files that the in-process planner keeps."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.skip_cases import make_files, matches
from tests.property.test_skip_files import to_adds
from tests.property.test_skip_row_groups import checkpoint
from tests.spark.cases import (
    frame_of,
    interpreting,
    kept_in_process,
    kept_on_spark,
    predicates,
    pruner_of,
)

# Read at import: the fixtures hide `LAZYDELTA_*` from the tests themselves.
EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_SPARK_EXAMPLES", "2"))
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def plain(spark):
    return interpreting(spark)


def check(spark, files, adds, texts):
    pruners = [pruner_of(text) for text in texts]
    found = kept_on_spark(frame_of(spark, adds), pruners)
    for text, pruner, kept in zip(texts, pruners, found, strict=True):
        wanted = matches(text, files)
        lost = [at for at, (k, w) in enumerate(zip(kept, wanted, strict=True)) if w and not k]
        assert not lost, f"dropped a file with a matching row: {text}, {pruner.rule}, {lost}"
        assert kept == kept_in_process(pruner, adds), f"{text}, {pruner.rule}"


def from_checkpoint(seed):
    """Return files and their adds with typed columns, some of them null, and texts."""
    rows, parquet = checkpoint(seed)
    column = parquet.read(["add"]).column("add").combine_chunks()
    adds = pa.RecordBatch.from_struct_array(column.drop_null())
    return [file for file in rows if file is not None], adds


@settings(max_examples=EXAMPLES, **SETTINGS)
@given(st.integers(0, 2**32), predicates(30))
def test_files_are_kept_alike_by_the_text_of_their_statistics(plain, seed, texts):
    files = make_files(seed, 40)
    check(plain, files, to_adds(files), texts)


@settings(max_examples=EXAMPLES, **SETTINGS)
@given(st.integers(0, 2**32), predicates(20), st.booleans())
def test_files_are_kept_alike_by_typed_statistics(plain, seed, texts, texts_too):
    files, adds = from_checkpoint(seed)
    if not texts_too:
        adds = adds.select(["path", "partitionValues_parsed", "stats_parsed"])
    check(plain, files, adds, texts)


def test_files_are_kept_alike_by_compiled_conditions(spark):
    texts = ["i = 2 AND p > 0", "t > '2026-03-01' OR w < 1.5", "s LIKE 'a%' AND NOT (x >= 1)"]
    files = make_files(11, 40)
    check(spark, files, to_adds(files), texts)


@pytest.mark.long
@settings(max_examples=100, **SETTINGS)
@given(st.integers(0, 2**32), predicates(60), st.booleans())
def test_files_are_kept_alike_in_many_cases(spark, seed, texts, typed):
    files = make_files(seed, 40)
    files, adds = from_checkpoint(seed) if typed else (files, to_adds(files))
    check(spark, files, adds, texts)


def test_the_comparison_can_fail(spark):
    """Guard of the tests above: files are dropped, and files are kept, by statistics alone."""
    files = make_files(7, 40)
    adds = to_adds(files)
    (kept,) = kept_on_spark(frame_of(spark, adds), [pruner_of("i = 2")])
    assert kept.count(False) > 10
    assert kept.count(True) > 5
