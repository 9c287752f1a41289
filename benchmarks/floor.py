"""Decoding time of the rows of the 1 % filter: `python -m benchmarks.floor`, for docs/adr/0014.

The filter of the table of rows selects as many rows as two of its files have. Here every decoder
reads two such files, one in each of two threads, without planning or filtering: the lower bound for
any engine with that decoder. The complete query is measured beside them. All run in this process,
warm and interleaved.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.generate import table_for
from benchmarks.selective_reads import ENGINES, HEAD, figures, measured
from benchmarks.spec import FILTER_IDS, RowsSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DECODERS", "main"]


def _pyarrow(path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = pq.ParquetReader(pa.system_memory_pool())
    reader.open(path, buffer_size=1 << 20)
    return reader.read_all()


def _parquet_rs(path: str) -> Any:
    import pyarrow as pa
    from lazydelta_decoder import read

    leaves = list(range(8))
    return pa.RecordBatchReader.from_stream(read(path, leaves, [0], 1 << 17)).read_all()


def _polars(path: str) -> Any:
    import polars as pl

    return pl.read_parquet(path).to_arrow(compat_level=pl.CompatLevel.newest())


DECODERS: dict[str, Callable[[str], Any]] = {"pyarrow": _pyarrow, "polars, views": _polars}
if find_spec("lazydelta_decoder") is not None:
    DECODERS["parquet-rs, views"] = _parquet_rs
else:
    print("parquet-rs is skipped: `make native` builds the decoder", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all; 1 if their row counts differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="runs of each; default 20")
    parser.add_argument("--rows", type=int, default=100_000, help="of a file; default 100000")
    options = parser.parse_args(arguments)
    spec = RowsSpec(rows_per_file=options.rows)
    table = table_for(spec)
    paths = [str(path) for path in sorted(table.glob("*.parquet"))[:2]]
    with ThreadPoolExecutor(len(paths)) as threads:

        def decoded(decode: Callable[[str], Any]) -> int:
            return sum(part.num_rows for part in threads.map(decode, paths))

        decoding = {f"decoding alone: {name}": partial(decoded, d) for name, d in DECODERS.items()}
        whole = {
            f"the query: {name}": partial(query, str(table), *FILTER_IDS)
            for name, query in ENGINES.items()
        }
        found = measured(decoding | whole, options.rounds)
    print(f"| what | {HEAD} |\n|---|---|---|---|---|")
    for name, samples in found.items():
        print(f"| {name} | {figures(samples)} |")
    return int(len({rows for samples in found.values() for rows, _, _ in samples}) > 1)


if __name__ == "__main__":
    sys.exit(main())
