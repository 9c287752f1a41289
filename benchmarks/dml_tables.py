"""Tables and sources of `benchmarks.dml`, made once and kept in the cache.

A measurement works on a copy: data files and commits are hard links, because no engine changes
one. The same options are the same rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.columns import mix
from benchmarks.dml_cases import Delete, WebReturns, WideTable
from benchmarks.generate import table_for
from benchmarks.rows import file_rows
from benchmarks.spec import CACHE, FILTER_DAY, RowsSpec, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.columns import Integers
    from benchmarks.dml_cases import Case, Source

__all__ = ["CaseData", "case_data", "copy_table", "delete_predicate"]

_WIDE_FILE_ROWS = 100_000
_WIDE_COLUMNS = 100
_SUITE_FILES = 40
_SOURCE_GROUP_ROWS = 65_536  # small: what it takes to read the source is not the engine's
_SOURCES = CACHE / "dml-sources"
_KEYS = [
    *("wr_returned_date_sk", "wr_returned_time_sk", "wr_refunded_customer_sk"),
    *("wr_refunded_cdemo_sk", "wr_refunded_hdemo_sk", "wr_refunded_addr_sk"),
    *("wr_returning_customer_sk", "wr_returning_cdemo_sk", "wr_returning_hdemo_sk"),
    *("wr_returning_addr_sk", "wr_web_page_sk", "wr_reason_sk"),
]
_AMOUNTS = [
    *("wr_return_amt", "wr_return_tax", "wr_return_amt_inc_tax", "wr_fee", "wr_return_ship_cost"),
    *("wr_refunded_cash", "wr_reversed_charge", "wr_account_credit", "wr_net_loss"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseData:
    """What a case works on."""

    table: Path
    source: Path | None
    expected: dict[str, int]
    """Counts that every engine must return."""
    rows: int | None
    """Rows of the table afterwards; None where they are not counted."""


def case_data(case: Case) -> CaseData:
    """Return table and source of a case, made now if they are not cached."""
    table = _table(case.table)
    if isinstance(case.verb, Delete):
        facts = json.loads((table / "expected.json").read_text())
        if case.verb.kind == "partition":
            expected = {"files": facts["files_on_filter_day"]}
            return CaseData(table=table, source=None, expected=expected, rows=None)
        deleted = case.table.files if isinstance(case.table, RowsSpec) else 0
        rows = facts["live_rows"] - deleted
        return CaseData(table=table, source=None, expected={"deleted": deleted}, rows=rows)
    assert case.source is not None  # noqa: S101
    path = _SOURCES / f"{case.name}-{_digest(case)}.parquet"
    if not path.exists():
        _SOURCES.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".new")
        rows = _source(case.table, case.source, case.verb.keys)
        pq.write_table(rows, scratch, row_group_size=_SOURCE_GROUP_ROWS)
        scratch.rename(path)
    is_match = pq.read_table(path, columns=["is_match"])["is_match"]
    matched = int(pc.sum(is_match).as_py() or 0)
    expected = {
        "updated": matched if case.verb.update else 0,
        "deleted": matched if case.verb.delete else 0,
        "inserted": len(is_match) - matched if case.verb.insert else 0,
    }
    rows = _row_count(case.table) + expected["inserted"] - expected["deleted"]
    return CaseData(table=table, source=path, expected=expected, rows=rows)


def delete_predicate(case: Case) -> str:
    """Return the condition of a DELETE."""
    if case.verb == Delete(kind="partition"):
        return f"date = '{date(2026, 1, 1) + timedelta(days=FILTER_DAY)}'"
    assert isinstance(case.table, RowsSpec)  # noqa: S101
    numbers = np.arange(case.table.files, dtype=np.int64)
    within = (mix(numbers, 5) % np.uint64(case.table.rows_per_file)).astype(np.int64)
    ids = (numbers * case.table.rows_per_file + within) * case.table.id_step
    return f"id IN ({', '.join(map(str, ids.tolist()))})"


def copy_table(table: Path, where: Path) -> None:
    """Copy a table by hard links, except for the pointer to the last checkpoint."""

    def link(source: str, target: str) -> None:
        if Path(source).name.startswith("_"):
            shutil.copyfile(source, target)
        else:
            os.link(source, target)

    shutil.copytree(table, where, copy_function=link)


def _digest(case: Case) -> str:
    options = [_SOURCE_GROUP_ROWS, asdict(case.source), asdict(case.table), case.verb.keys]  # type: ignore[arg-type, union-attr]
    return hashlib.sha256(json.dumps(options).encode()).hexdigest()[:10]


def _row_count(table: RowsSpec | TableSpec | WideTable | WebReturns) -> int:
    if isinstance(table, TableSpec):
        raise TypeError("a log without data files has no source")
    return table.rows


def _table(table: RowsSpec | TableSpec | WideTable | WebReturns) -> Path:
    if isinstance(table, RowsSpec | TableSpec):
        return table_for(table)
    name = "wide" if isinstance(table, WideTable) else "web-returns"
    path = CACHE / f"dml-{name}-{table.rows}"
    if not path.exists():
        import lazydelta as ld

        CACHE.mkdir(exist_ok=True)
        scratch = path.with_suffix(".new")
        shutil.rmtree(scratch, ignore_errors=True)
        for rows in _files(table):
            ld.write(scratch, rows, "append")
        scratch.rename(path)
    return path


def _files(table: RowsSpec | TableSpec | WideTable | WebReturns) -> Iterator[pa.Table]:
    """Yield the rows of each file."""
    if isinstance(table, RowsSpec):
        yield from (file_rows(table, number) for number in range(table.files))
    elif isinstance(table, TableSpec):
        raise TypeError("a log without data files has no rows")
    else:
        is_wide = isinstance(table, WideTable)
        size = _WIDE_FILE_ROWS if is_wide else -(-table.rows // _SUITE_FILES)
        make = _wide_rows if is_wide else _returns
        for start in range(0, table.rows, size):
            yield make(np.arange(start, min(start + size, table.rows), dtype=np.int64))


def _below(numbers: Integers, salt: int, high: int) -> Integers:
    return (mix(numbers, salt) % np.uint64(high)).astype(np.int64)


def _wide_rows(numbers: Integers) -> pa.Table:
    values = {f"c{n}": mix(numbers, n) / 2.0**64 for n in range(_WIDE_COLUMNS)}
    return pa.table({"id": numbers, **values})


def _returns(numbers: Integers) -> pa.Table:
    """Return rows of `web_returns`; item and order are the key."""
    columns: dict[str, Any] = {
        "wr_item_sk": _below(numbers, 1, 6000) * 3 + numbers % 3,
        "wr_order_number": numbers // 3,
        "wr_return_quantity": _below(numbers, 2, 100).astype(np.int32),
    }
    for salt, name in enumerate(_KEYS, 10):
        missing = _below(numbers, salt + 100, 25) == 0
        columns[name] = pa.array(_below(numbers, salt, 100_000), mask=missing)
    for salt, name in enumerate(_AMOUNTS, 40):
        columns[name] = _amounts(_below(numbers, salt, 1_000_000))
    return pa.table(columns)


def _amounts(cents: Integers) -> pa.Array:
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(7, 2), len(cents), [None, pa.py_buffer(words)])


def _source(table: Any, source: Source, keys: tuple[str, ...]) -> pa.Table:
    """Return the rows of a source, with a column `is_match`."""
    if isinstance(table, WebReturns):
        return _returned_again(table, source)
    if isinstance(table, WideTable):
        numbers = np.unique(_below(np.arange(source.rows, dtype=np.int64), 3, table.rows))
        rows = _wide_rows(numbers).select(["id", "c0", "c1"])
        return rows.append_column("is_match", pa.array(np.ones(len(rows), np.bool_)))
    parts, start = [], 0
    positions = _positions(table, source)  # ascending
    for rows in _files(table):
        first, end = np.searchsorted(positions, (start, start + len(rows)))
        chosen = positions[first:end] - start
        some = rows.take(pa.array(chosen))
        is_match = mix(chosen + start, 6) / 2.0**64 < source.matched
        parts.append(_upserted(some, pa.array(is_match)))
        start += len(rows)
    found = pa.concat_tables(parts)
    first = found.append_column("row", pa.array(np.arange(len(found))))
    kept = first.group_by(list(keys)).aggregate([("row", "min")])["row_min"]
    return found.take(kept.take(pc.sort_indices(kept)))


def _positions(table: RowsSpec, source: Source) -> Integers:
    """Return the numbers of the rows of the table that the source has, or has a neighbour of."""
    count = min(source.rows, table.rows)
    numbers = np.arange(count, dtype=np.int64)
    if source.kind == "clustered":
        return numbers + (table.rows - count) // 2
    return numbers * table.rows // count + _below(numbers, 9, max(1, table.rows // count))


def _upserted(rows: pa.Table, is_match: pa.Array) -> pa.Table:
    """Return changed rows, and new ones beside those that do not match."""
    names = pc.replace_substring(rows["name"], "customer", "newcomer")
    changed = {
        "id": pc.if_else(is_match, rows["id"], pc.add(rows["id"], 1)),
        "value": pc.add(rows["value"], 1.0),
        "name": pc.if_else(is_match, rows["name"], names),
        "qty": pc.add(rows["qty"], pa.scalar(1, pa.int32())),
    }
    for name, column in changed.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows.append_column("is_match", is_match)


def _returned_again(table: WebReturns, source: Source) -> pa.Table:
    """Return a sample of some files as they are, and one with keys that the table does not have."""
    size = -(-table.rows // _SUITE_FILES)
    order = np.argsort(mix(np.arange(_SUITE_FILES), 4))
    files = order[: max(1, round(source.files * _SUITE_FILES))]
    numbers = np.concatenate([np.arange(file * size, (file + 1) * size) for file in files])
    numbers = numbers[numbers < table.rows]
    same = _returns(numbers[mix(numbers, 7) / 2.0**64 < source.matched])
    others = numbers[mix(numbers, 8) / 2.0**64 < source.not_matched]
    new = _returns(others)
    for salt, name in enumerate(("wr_item_sk", "wr_order_number"), 70):
        column = pa.array(_below(others, salt, 2**32))
        new = new.set_column(new.column_names.index(name), name, column)
    is_match = np.arange(len(same) + len(new)) < len(same)
    return pa.concat_tables([same, new]).append_column("is_match", pa.array(is_match))
