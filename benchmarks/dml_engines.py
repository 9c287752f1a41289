"""The child process of `benchmarks.dml`: one engine runs one case on a copy of its table.

    python -m benchmarks.dml_engines ENGINE CASE SCALE TABLE [SOURCE]

Prints the sample as JSON. The clock starts before the table is opened; imports and the first use
of the engine, on a small table, come before it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.dml_cases import SCALES, Delete, cases_of
from benchmarks.dml_tables import delete_predicate
from benchmarks.engines import memory_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.dml_cases import Merge

__all__ = ["Sample"]

_BATCH_ROWS = 65_536
Counts = dict[str, int]


@dataclass(slots=True, kw_only=True)
class Sample:
    """One measured run; memory and sizes in bytes."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of all threads: more reliable than `seconds` on a busy machine."""
    base_rss: int = 0
    peak_rss: int = 0
    data_bytes: int = 0
    """Size of new data files."""
    other_bytes: int = 0
    """Size of new deletion vectors and log files."""
    counts: Counts = field(default_factory=dict)
    error: str = ""


def _lazydelta(path: str, verb: str | Merge, source: pa.RecordBatchReader | None) -> Counts:
    import lazydelta as ld

    table = ld.Table.open(path)
    if isinstance(verb, str):
        result = table.delete(verb)
        deleted = result.metrics.get("numDeletedRows", -1)
        return {"deleted": deleted, "files": result.files_removed}
    merge = table.merge(source, verb.on)
    if verb.update:
        columns = "*" if verb.update == "*" else {name: f"s.{name}" for name in verb.update}
        merge = merge.when_matched_update(columns)
    if verb.delete:
        merge = merge.when_matched_delete()
    for where in verb.insert:
        merge = merge.when_not_matched_insert("*", where)
    metrics = merge.execute().metrics
    names = ("updated", "deleted", "inserted")
    return {name: metrics[f"numTargetRows{name.capitalize()}"] for name in names}


def _deltalake(streamed: bool) -> Callable[..., Counts]:
    def run(path: str, verb: str | Merge, source: pa.RecordBatchReader | None) -> Counts:
        from deltalake import DeltaTable, WriterProperties

        table, snappy = DeltaTable(path), WriterProperties(compression="SNAPPY")
        if isinstance(verb, str):
            metrics = table.delete(verb, writer_properties=snappy)
            deleted = metrics["num_deleted_rows"]
            return {"deleted": deleted, "files": metrics["num_removed_files"]}
        assert source is not None  # noqa: S101
        merge = table.merge(
            source, verb.on, target_alias="t", source_alias="s", streamed_exec=streamed,
            writer_properties=snappy,
        )  # fmt: skip
        if verb.update == "*":
            merge = merge.when_matched_update_all()
        elif verb.update:
            merge = merge.when_matched_update({name: f"s.{name}" for name in verb.update})
        if verb.delete:
            merge = merge.when_matched_delete()
        for where in verb.insert:
            merge = merge.when_not_matched_insert_all(where)
        metrics = merge.execute()
        names = ("updated", "deleted", "inserted")
        return {name: metrics[f"num_target_rows_{name}"] for name in names}

    return run


ENGINES: dict[str, Callable[[str, str | Merge, pa.RecordBatchReader | None], Counts]] = {
    "lazydelta": _lazydelta,
    "deltalake": _deltalake(streamed=False),
    "deltalake streamed": _deltalake(streamed=True),
}


def _read(source: str | None, batch_rows: int = _BATCH_ROWS) -> pa.RecordBatchReader | None:
    """Return the rows of a source as a stream."""
    if source is None:
        return None
    file = pq.ParquetFile(source)
    names = [name for name in file.schema_arrow.names if name != "is_match"]
    schema = pa.schema([file.schema_arrow.field(name) for name in names])
    batches: Iterator[pa.RecordBatch] = file.iter_batches(batch_rows, columns=names)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _write(engine: str, path: str, rows: pa.Table) -> None:
    if engine == "lazydelta":
        import lazydelta as ld

        ld.write(path, rows, "append")
    else:
        from deltalake import write_deltalake

        write_deltalake(path, rows)


def _warm_up(engine: str, verb: str | Merge, source: str | None) -> None:
    """Run the verb on a small table: modules that are loaded on first use are not measured."""
    with tempfile.TemporaryDirectory() as folder:
        reader = _read(source, 10)
        rows = pa.table({"id": [1, 2, 3]})
        if reader is not None:
            first = next(iter(reader), None)
            rows = pa.Table.from_batches([first] if first else [], reader.schema)
        _write(engine, f"{folder}/table", rows)
        if reader is None:
            ENGINES[engine](f"{folder}/table", "id = 2", None)
        else:
            ENGINES[engine](f"{folder}/table", verb, rows.slice(0, 1).to_reader())


def run(engine: str, name: str, scale: str, path: str, source: str | None = None) -> Sample:
    """Run one case in this process and measure it."""
    case, sample = cases_of(SCALES[scale])[name], Sample()
    verb = delete_predicate(case) if isinstance(case.verb, Delete) else case.verb
    _warm_up(engine, verb, source)
    sample.base_rss = memory_of_process("VmRSS")
    start, busy = time.perf_counter(), time.process_time()
    try:
        sample.counts = ENGINES[engine](path, verb, _read(source))
    except Exception as error:  # noqa: BLE001 - a peer that fails is a result, not an accident
        sample.error = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    sample.seconds = time.perf_counter() - start
    sample.cpu_seconds = time.process_time() - busy
    sample.peak_rss = memory_of_process("VmHWM")
    return sample


if __name__ == "__main__":
    shown: dict[str, Any] = asdict(run(*sys.argv[1:]))
    print(json.dumps(shown))
