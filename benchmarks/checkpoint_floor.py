"""What a checkpoint takes to decode and to encode: `python -m benchmarks.checkpoint_floor`.

For docs/adr/0026. The hash-ordered checkpoint of a table is decoded by Arrow, all columns of `add`
that have values, and what is decoded is forgotten. The rows of the checkpoint that we write of the
same table are encoded as we encode them, and what is encoded is forgotten. Both by two threads,
with nothing to sort, spill, compare or write: whoever uses Arrow's decoder and encoder cannot be
quicker. Beside them stands the whole, in this process too, so that all are equally warm.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.generate import table_for
from benchmarks.suites import SPARK_LIKE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["main"]

_THREADS = 2
_FULL_GROUP = 32_768

Times = tuple[float, float]
"""Seconds by the clock, and of the processor."""


def _timed(work: Callable[[], Any]) -> Times:
    start, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - busy


def _side_by_side(function: Callable[[Any], Any], items: Sequence[Any]) -> None:
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(function, items))


def decoding(checkpoint: Path) -> Times:
    """Decode a checkpoint, long texts by one thread and the rest by another."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(checkpoint)
    chunks = [footer.row_group(0).column(at) for at in range(footer.num_columns)]
    wanted = [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema.startswith("add.")
        and chunk.statistics.null_count < footer.row_group(0).num_rows
    ]

    def decode(columns: Sequence[str]) -> None:
        file = pq.ParquetFile(checkpoint, buffer_size=1 << 20, pre_buffer=False)
        for _ in file.iter_batches(24_576, columns=columns, use_threads=False):
            pass

    rest = [name for name in wanted if name != "add.stats"]
    return _timed(lambda: _side_by_side(decode, [["add.stats"], rest]))


def encoding(table: Path) -> Times:
    """Encode the rows of the newest checkpoint of a table, which is one of ours."""
    from lazydelta import Table
    from lazydelta.checkpoint.action_encoding import ActionEncoder
    from lazydelta.checkpoint.checkpoint_schema import CheckpointSettings, CheckpointShape

    snapshot = Table.open(str(table)).snapshot()
    encoder = ActionEncoder(CheckpointShape(snapshot, CheckpointSettings.of(snapshot)), others=True)
    newest = max((table / "_delta_log").glob("*.checkpoint.parquet"))
    seconds, busy = 0.0, 0.0
    for groups in _pairs_of_groups(newest):
        one, two = _timed(lambda groups=groups: _side_by_side(  # type: ignore[misc]
            lambda columns: encoder.files("add", [columns]), groups
        ))  # fmt: skip
        seconds, busy = seconds + one, busy + two
    return seconds, busy


def _pairs_of_groups(checkpoint: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the adds of full row groups, two row groups at a time."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(checkpoint)
    rows = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    full = [at for at, count in enumerate(rows) if count == _FULL_GROUP]
    for start in range(0, len(full), _THREADS):
        tables = [file.read_row_group(at, columns=["add"]) for at in full[start : start + _THREADS]]
        adds = [table.column("add").combine_chunks() for table in tables]
        yield [
            {
                item.name: column
                for item, column in zip(each.type, each.flatten(), strict=True)
                if column.null_count < len(column)
            }
            for each in adds
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a command."""
    from lazydelta import Table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=SPARK_LIKE.files)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    source = table_for(replace(SPARK_LIKE, files=options.files))
    (checkpoint,) = (source / "_delta_log").glob("*.checkpoint.parquet")
    with tempfile.TemporaryDirectory(dir=source.parent) as directory:
        for number in range(options.rounds):
            copy = Path(directory, str(number))
            shutil.copytree(source / "_delta_log", copy / "_delta_log")
            table = Table.open(str(copy))
            figures = {
                "the whole checkpoint": _timed(table.checkpoint),
                "decoding alone": decoding(checkpoint),
                "encoding alone": encoding(copy),
            }
            shutil.rmtree(copy)
            for what, (seconds, busy) in figures.items():
                print(f"{what:22} {seconds:5.2f} s, processor {busy:5.2f} s")


if __name__ == "__main__":
    main()
