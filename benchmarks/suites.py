"""Which tables and workloads a run covers: quick, default, full.

Pure lists. The headline table is clustered with small row groups; the Spark-like one is the
opposite in both, so that neither layout flatters anybody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from benchmarks.engines import OPERATIONS
from benchmarks.measure import Case
from benchmarks.spec import TableSpec

__all__ = ["HEADLINE", "MATRIX", "SPARK_LIKE", "Suite", "cases_of"]

Suite = Literal["quick", "default", "full"]

HEADLINE = TableSpec(files=1_000_000, tail=10)
SPARK_LIKE = TableSpec(files=1_000_000, tail=10, clustered=False, row_group_rows=1 << 20)

MATRIX: dict[str, TableSpec] = {
    "no tail": replace(HEADLINE, tail=0),
    "99 commits in the tail": replace(HEADLINE, tail=99),
    "1 M tombstones in the checkpoint": replace(HEADLINE, removes=1_000_000),
    "deletion vectors on a third": replace(HEADLINE, deletion_vectors=True),
    "huge row groups, clustered": replace(HEADLINE, row_group_rows=1 << 20),
    "small row groups, hash-ordered": replace(HEADLINE, clustered=False),
    "JSON statistics only": replace(HEADLINE, parsed_stats=False),
    "JSON statistics only, Spark-like": replace(SPARK_LIKE, parsed_stats=False),
    "parsed statistics only": replace(HEADLINE, json_stats=False),
    "not partitioned": replace(HEADLINE, partitioned=False),
    "multi-part": replace(HEADLINE, kind="multipart"),
    "V2 with sidecars": replace(HEADLINE, kind="v2"),
    "metadata in the last rows": replace(HEADLINE, metadata_last=True),
    "a checksum file": replace(HEADLINE, crc=True),
}
"""One knob turned at a time."""

_LADDER = (10_000, 100_000)
_CORE = {
    "lazydelta": ["first", "all", "partition", "nothing"],
    "deltalake": ["open", "all", "partition", "nothing"],
    "polars": ["nothing"],
    "pyarrow": ["all"],
}
_MATRIX_CORE = {
    "lazydelta": ["first", "all", "partition", "nothing"],
    "deltalake": ["all", "partition", "nothing"],
    "pyarrow": ["all"],
}
_EVERYTHING = {engine: list(workloads) for engine, workloads in OPERATIONS.items()}
_SIZE_ONLY = {"lazydelta": ["first", "all"], "deltalake": ["all"], "pyarrow": ["all"]}
_OURS_ONLY = {"lazydelta": ["first", "all"], "pyarrow": ["all"]}


def _cases(spec: TableSpec, workloads: dict[str, list[str]]) -> list[Case]:
    return [
        Case(engine=engine, workload=name, spec=spec)
        for engine, names in workloads.items()
        for name in names
        if spec.partitioned or "partition" not in name
    ]


def cases_of(suite: Suite) -> list[Case]:
    """Return the cases of a suite, small tables first."""
    cases = [c for n in _LADDER for c in _cases(replace(HEADLINE, files=n), _EVERYTHING)]
    if suite == "quick":
        return cases
    cases += _cases(replace(SPARK_LIKE, files=10_000), {"lazydelta": ["first"]})
    cases += _cases(HEADLINE, _EVERYTHING) + _cases(SPARK_LIKE, _CORE)
    five = replace(HEADLINE, files=5_000_000)
    three = replace(HEADLINE, files=3_000_000)
    if suite == "default":
        return cases + _cases(three, _SIZE_ONLY) + _cases(five, _OURS_ONLY)
    size = _SIZE_ONLY | {"polars": ["all"]}
    cases += _cases(three, size) + _cases(five, size)
    for files in (3_000_000, 5_000_000):
        cases += _cases(replace(SPARK_LIKE, files=files), _SIZE_ONLY)
    return cases + [c for spec in MATRIX.values() for c in _cases(spec, _MATRIX_CORE)]
