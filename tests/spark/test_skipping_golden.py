"""The golden tables: executors keep the files that the in-process planner keeps of real logs."""

from __future__ import annotations

import json
from functools import reduce
from operator import and_

import pytest
from pyspark.sql import functions as f

from lazydelta import Table
from lazydelta.errors import DeltaError
from lazydelta.expr import as_predicate
from lazydelta.replay import Pruner
from lazydelta.schema import StructType, physical_name
from lazydelta.spark import distributed_log_replay
from lazydelta.spark.skipping import file_conditions
from tests.golden_pack import NEEDS_PACK, PACK
from tests.spark.cases import interpreting

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]
FEW = (
    "dat__multi_partitioned",
    "dat__partitioned_with_null",
    "dat__stats_as_struct",
    "dat__column_mapping",
)


def good_tables():
    path = PACK / "manifest.json"
    known = json.loads(path.read_text())["tables"] if path.is_file() else []
    return [table["name"] for table in known if table["kind"] == "ok"]


def questions(snapshot):
    """Ask of every column for values that some file has, and for what lies beside them."""
    known = [file for file, _ in zip(snapshot.scan().files(), range(2), strict=False)]
    for field in snapshot.schema:
        if isinstance(field.type, StructType):
            continue
        yield f"`{field.name}` IS NULL"
        physical = physical_name(field, snapshot.column_mapping_mode)
        for file in known:
            groups = [(file.stats or {}).get(group) or {} for group in ("minValues", "maxValues")]
            values = [group.get(physical) for group in groups]
            for value in [file.partition_values.get(field.name), *values]:
                if value is not None and not isinstance(value, dict):
                    yield [(field.name, "=", value)]
                    yield [(field.name, ">", value)]


def pruners(snapshot):
    for where in questions(snapshot):
        try:
            yield (
                where,
                Pruner.build(
                    as_predicate(where),
                    schema=snapshot.schema,
                    partition_columns=snapshot.partition_columns,
                    mapping_mode=snapshot.column_mapping_mode,
                    generated=snapshot.generates_columns,
                ),
            )
        except DeltaError:
            continue  # a column that cannot be compared so; its other questions remain


def check(spark, name):
    snapshot = Table.open(PACK / "tables" / name).snapshot()
    asked = dict(enumerate(pruners(snapshot)))
    live = distributed_log_replay(interpreting(spark), snapshot, 2)
    columns = [
        reduce(and_, file_conditions(pruner, live.schema), f.lit(True)).alias(f"c{at}")
        for at, (_, pruner) in asked.items()
    ]
    found = live.select("path", *columns).toArrow()
    paths = found.column("path").to_pylist()
    for at, (where, _) in asked.items():
        kept = [
            p for p, keep in zip(paths, found.column(f"c{at}").to_pylist(), strict=True) if keep
        ]
        planned = [file.raw_path for file in snapshot.scan(where=where).files()]
        assert sorted(kept) == sorted(planned), f"{name}: {where}"
    return len(asked)


@pytest.mark.parametrize("name", FEW)
def test_real_logs_are_skipped_alike(spark, name):
    assert check(spark, name) > 3


@pytest.mark.long
@pytest.mark.parametrize("name", good_tables())
def test_every_real_log_is_skipped_alike(spark, name):
    check(spark, name)
