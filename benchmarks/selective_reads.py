"""Few rows of a large row group: `python -m benchmarks.selective_reads`, for docs/adr/0014.

One file of a million rows in one row group, clustered on `id`, with the page layouts of different
writers. Queries select a hundredth of the rows, beyond the middle. All engines run in this process,
warm and interleaved. CPU time is reported beside wall time: other work on the machine changes it
less.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from benchmarks.rows import file_rows
from benchmarks.spec import CACHE, RowsSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    Query = Callable[[str, int, int], int]
    Sample = tuple[int, float, float]
    """Rows, milliseconds of CPU time, and of wall time."""

__all__ = ["ENGINES", "HEAD", "WRITERS", "figures", "main", "measured"]

HEAD = "CPU ms, median | best | wall ms, median | best"

_ROWS = 1_000_000
_FROM, _SHARE = 0.55, 0.01


def _deltalake_writer(rows: pa.Table, where: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(where), rows)


def _pyarrow_writer(**options: Any) -> Callable[[pa.Table, Path], None]:
    def write(rows: pa.Table, where: Path) -> None:
        from deltalake import convert_to_deltalake

        where.mkdir(parents=True)
        pq.write_table(rows, where / "a.parquet", row_group_size=rows.num_rows, **options)
        convert_to_deltalake(str(where))

    return write


WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "deltalake": _deltalake_writer,
    "pyarrow": _pyarrow_writer(),
    "pyarrow, zstd, page index": _pyarrow_writer(compression="zstd", write_page_index=True),
}


def _lazydelta(path: str, low: int, high: int) -> int:
    import lazydelta

    rows = lazydelta.Table.open(path).scan(f"id between {low} and {high}").to_arrow()
    return int(rows.num_rows)


def _query_builder(path: str, low: int, high: int) -> int:
    from deltalake import DeltaTable, QueryBuilder

    query = f"select * from t where id between {low} and {high}"  # noqa: S608 - two numbers
    return int(QueryBuilder().register("t", DeltaTable(path)).execute(query).read_all().num_rows)


def _pyarrow_table(path: str, low: int, high: int) -> int:
    from deltalake import DeltaTable

    ends = [("id", ">=", low), ("id", "<=", high)]
    return int(DeltaTable(path).to_pyarrow_table(filters=ends).num_rows)


def _polars(path: str, low: int, high: int) -> int:
    import polars as pl

    return int(pl.scan_delta(path).filter(pl.col("id").is_between(low, high)).collect().height)


ENGINES: dict[str, Query] = {
    "lazydelta": _lazydelta,
    "deltalake QueryBuilder": _query_builder,
    "deltalake to_pyarrow_table": _pyarrow_table,
    "polars scan_delta": _polars,
}


def measured(queries: Mapping[str, Callable[[], int]], rounds: int) -> dict[str, list[Sample]]:
    """Return the samples of each query; all of them run once in every round."""
    samples: dict[str, list[Sample]] = {name: [] for name in queries}
    for at in range(rounds + 1):
        for name, query in queries.items():
            processor, wall = time.process_time(), time.perf_counter()
            rows = query()
            spent = time.process_time() - processor, time.perf_counter() - wall
            if at:  # the first one warms up
                samples[name].append((rows, 1000 * spent[0], 1000 * spent[1]))
    return samples


def figures(samples: Sequence[Sample]) -> str:
    """Return the cells of `HEAD`."""
    times = list(zip(*samples, strict=True))[1:]
    return " | ".join(f"{pick(ms):.1f}" for ms in times for pick in (statistics.median, min))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every engine on every layout; 1 if their row counts differ."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.selective_reads", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=20, help="runs of each; default 20")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"of the file; default {_ROWS}")
    options = parser.parse_args(arguments)
    rows = file_rows(RowsSpec(files=20, rows_per_file=options.rows), 3)
    ids = rows["id"]
    first = int(_FROM * options.rows)
    ends = ids[first].as_py(), ids[first + int(_SHARE * options.rows) - 1].as_py()
    print(f"| written by | engine | {HEAD} |\n|---|---|---|---|---|---|")
    counts = set()
    for writer, write in WRITERS.items():
        name = writer.replace(", ", "-").replace(" ", "-")
        where = CACHE / f"selective-reads-{options.rows}-{name}"
        if not where.exists():
            write(rows, where)
        queries = {name: partial(query, str(where), *ends) for name, query in ENGINES.items()}
        for engine, samples in measured(queries, options.rounds).items():
            counts |= {count for count, _, _ in samples}
            print(f"| {writer} | {engine} | {figures(samples)} |")
    return int(len(counts) > 1)


if __name__ == "__main__":
    sys.exit(main())
