"""Synthetic `_delta_log`s of any size: `python -m benchmarks.generate --help`.

Written row group by row group in bounded memory; cached under the spec's key. `expected.json`
beside the log holds the counts that every engine must return. Few data files exist (`real_files`);
`rows` generates tables with all of theirs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.actions import (
    add_column,
    checkpoint_schema,
    header_rows,
    metadata,
    protocol,
    remove_column,
    rows_of,
)
from benchmarks.columns import FileColumns
from benchmarks.real import write_real_files
from benchmarks.rows import generate_rows
from benchmarks.spec import (
    CACHE,
    CHECKPOINT_VERSION,
    FILTER_DAY,
    Kind,
    RowsSpec,
    Spec,
    TableSpec,
)
from benchmarks.tail import commit_json, live_indices, tail_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.columns import Integers

__all__ = ["expected_facts", "generate", "table_for"]

_CHUNK_ROWS = 65_536
_MANIFEST_UUID = "0d5e8a2c-94b7-4b8e-9c55-52a4e6a1f3d0"


def _log_name(version: int, suffix: str) -> str:
    return f"{version:020d}.{suffix}"


def _order(spec: TableSpec) -> Integers:
    """Return the numbers of the checkpoint's files and tombstones, in the order of its rows."""
    numbers = np.arange(spec.files + spec.removes, dtype=np.int64)
    return numbers if spec.clustered else np.random.default_rng(spec.seed).permutation(numbers)


def _file_batches(
    spec: TableSpec, numbers: Integers, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(numbers), _CHUNK_ROWS):
        chunk = numbers[start : start + _CHUNK_ROWS]
        if len(alive := chunk[chunk < spec.files]):
            yield rows_of(schema, "add", add_column(FileColumns(spec, alive)))
        if len(dead := chunk[chunk >= spec.files]):
            yield rows_of(schema, "remove", remove_column(FileColumns(spec, dead)))


def _write_parquet(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], row_group_rows: int
) -> int:
    """Write full row groups as soon as there are rows for them; return the rows."""
    waiting: list[pa.RecordBatch] = []
    rows = written = 0
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            whole = (rows - written) // row_group_rows * row_group_rows
            if whole:
                table = pa.Table.from_batches(waiting)
                writer.write_table(table.slice(0, whole), row_group_size=row_group_rows)
                waiting = table.slice(whole).to_batches()
                written += whole
        if rows > written:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=row_group_rows)
    return rows


def _with_header(
    spec: TableSpec, header: pa.RecordBatch, files: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if not spec.metadata_last:
        yield header
    yield from files
    if spec.metadata_last:
        yield header


def _write_checkpoint(spec: TableSpec, log: Path) -> dict[str, Any]:
    """Write the checkpoint and return its fields of `_last_checkpoint` except the version."""
    schema = checkpoint_schema(spec)
    order = _order(spec)
    if spec.kind == "v2":
        return _write_v2(spec, log, order)
    parts = 1 if spec.kind == "classic" else spec.parts
    header_part = parts - 1 if spec.metadata_last else 0
    total = size = 0
    for part, numbers in enumerate(np.array_split(order, parts)):
        between = f"{part + 1:010d}.{parts:010d}." if spec.kind == "multipart" else ""
        path = log / _log_name(CHECKPOINT_VERSION, f"checkpoint.{between}parquet")
        batches: Iterable[pa.RecordBatch] = _file_batches(spec, numbers, schema)
        if part == header_part:
            batches = _with_header(spec, header_rows(spec, schema), batches)
        total += _write_parquet(path, schema, batches, spec.row_group_rows)
        size += path.stat().st_size
    facts = {"size": total, "sizeInBytes": size, "numOfAddFiles": spec.files}
    return facts | ({"parts": parts} if spec.kind == "multipart" else {})


def _write_v2(spec: TableSpec, log: Path, order: Integers) -> dict[str, Any]:
    (log / "_sidecars").mkdir()
    schema = checkpoint_schema(spec, sidecar=True)
    sidecars: list[dict[str, Any]] = []
    total = size = 0
    for part, numbers in enumerate(np.array_split(order, spec.parts)):
        path = log / "_sidecars" / f"{_MANIFEST_UUID[:-2]}{part:02x}.parquet"
        batches = _file_batches(spec, numbers, schema)
        total += _write_parquet(path, schema, batches, spec.row_group_rows)
        size += path.stat().st_size
        entry = {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 0}
        sidecars.append({"sidecar": entry})
    header = [{"checkpointMetadata": {"version": CHECKPOINT_VERSION}}, *sidecars]
    name = _log_name(CHECKPOINT_VERSION, f"checkpoint.{_MANIFEST_UUID}.parquet")
    main = checkpoint_schema(spec)
    rows = header_rows(spec, main, header)
    total += _write_parquet(log / name, main, [rows], spec.row_group_rows)
    size += (log / name).stat().st_size
    return {"size": total, "sizeInBytes": size, "numOfAddFiles": spec.files}


def expected_facts(spec: TableSpec) -> dict[str, int]:
    """Return the content of the newest version, computed from the spec alone."""
    numbers = live_indices(spec)
    total = on_day = rows = 0
    for start in range(0, len(numbers), 1 << 20):
        files = FileColumns(spec, numbers[start : start + (1 << 20)])
        total += int(files.size.sum())
        on_day += int((files.day == FILTER_DAY).sum())
        rows += int(files.records.sum())
    last = FileColumns(spec, np.array([spec.indices - 1], np.int64))
    return {
        "version": spec.last_version,
        "live_files": len(numbers),
        "live_bytes": total,
        "live_rows": rows,
        "files_on_filter_day": on_day,
        "last_file_id": int(last.bounds("lo")["id"][0]),
        "last_file_rows": int(last.records[0]),
    }


def _write_crc(spec: TableSpec, log: Path, facts: dict[str, int]) -> None:
    content = {
        "tableSizeBytes": facts["live_bytes"],
        "numFiles": facts["live_files"],
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": metadata(spec),
        "protocol": protocol(spec),
        "setTransactions": [{"appId": "benchmarks", "version": 3}],
        "domainMetadata": [],
    }
    (log / _log_name(spec.last_version, "crc")).write_text(json.dumps(content))


def generate(spec: TableSpec, where: Path) -> dict[str, int]:
    """Write the table into the folder `where`, which must not exist yet; return the facts.

    `live_rows` is the sum of the statistics; no row counts as deleted by a vector.
    """
    log = where / "_delta_log"
    log.mkdir(parents=True)
    hint = {"version": CHECKPOINT_VERSION} | _write_checkpoint(spec, log)
    (log / "_last_checkpoint").write_text(json.dumps(hint))
    info = {"commitInfo": {"operation": "OPTIMIZE", "engineInfo": "benchmarks"}}
    (log / _log_name(CHECKPOINT_VERSION, "json")).write_text(json.dumps(info) + "\n")
    for commit in tail_commits(spec):
        name = _log_name(CHECKPOINT_VERSION + 1 + commit.ordinal, "json")
        (log / name).write_text(commit_json(spec, commit))
    if spec.real_files:
        write_real_files(spec, where)
    facts = expected_facts(spec)
    if spec.crc:
        _write_crc(spec, log, facts)
    (where / "expected.json").write_text(json.dumps(facts))
    return facts


def table_for(spec: Spec) -> Path:
    """Return the directory of the table, generated now if it is not cached."""
    if not spec.path.exists():
        CACHE.mkdir(exist_ok=True)
        (CACHE / ".gitignore").write_text("*\n")
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            made = Path(scratch) / "table"
            _make(spec, made)
            made.rename(spec.path)
    return spec.path


def _make(spec: Spec, where: Path) -> None:
    if isinstance(spec, RowsSpec):
        generate_rows(spec, where, share=table_for(spec.base) if spec.base else None)
    else:
        generate(spec, where)


def _parser(knobs: type[Spec]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, help="folder to make; default: the cache")
    parser.add_argument("--force", action="store_true", help="replace the folder if it exists")
    parser.add_argument("--of-rows", action="store_true", help="a table with all its data files")
    for knob in fields(knobs):
        flag = "--" + knob.name.replace("_", "-")
        if isinstance(knob.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=knob.default)
        else:
            choices = get_args(Kind) if knob.name == "kind" else None
            parser.add_argument(
                flag, type=type(knob.default), default=knob.default, choices=choices
            )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate one table and print its path and content."""
    first = argparse.ArgumentParser(add_help=False)  # the options depend on this flag
    first.add_argument("--of-rows", action="store_true")
    kind = RowsSpec if first.parse_known_args(arguments)[0].of_rows else TableSpec
    parser = _parser(kind)
    options = vars(parser.parse_args(arguments))
    out: Path | None = options.pop("out")
    force = options.pop("force")
    del options["of_rows"]
    try:
        spec: Spec = kind(**options)
    except ValueError as error:
        parser.error(str(error))
    if out is None:
        out = table_for(spec)
    else:
        if out.exists() and not force:
            parser.error(f"{out} exists; give --force to replace it")
        shutil.rmtree(out, ignore_errors=True)
        _make(spec, out)
    print(json.dumps({"table": str(out), **json.loads((out / "expected.json").read_text())}))


if __name__ == "__main__":
    main()
