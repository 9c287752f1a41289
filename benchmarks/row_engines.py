"""The operation of each engine per row workload; `engines` runs it in a separate process.

Written as a user of the engine would, from opening the table to the rows in memory. Each engine
returns its own default Arrow types.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import count_batches, storage_options
from benchmarks.spec import FILTER_IDS, ID_SPAN

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.clock import Clock, Operation

    Place = tuple[Path, tuple[int, int] | None]
    """A file and the range of its rows; None means all."""

__all__ = ["ROW_LIMIT", "ROW_OPERATIONS", "lazydelta_scan"]

ROW_LIMIT = 10
"""Of the workload `limit`."""
_IN_FILTER = f"id between {FILTER_IDS[0]} and {FILTER_IDS[1]}"
_IS_POINT = f"id = {FILTER_IDS[0]}"
_ALL_ROWS = "select * from t"


def _facts(path: str) -> dict[str, int]:
    """The generator's facts about a table."""
    return json.loads((Path(path) / "expected.json").read_text())


def _in_last_file(path: str) -> str:
    return f"id >= {_facts(path)['last_file_id']}"


def _height(table: Any, clock: Clock) -> int:
    """Return the number of rows of an Arrow table or a Polars frame, and stop the clock."""
    clock.first()
    clock.last()
    return len(table)


# --- lazydelta ------------------------------------------------------------------------------------


def lazydelta_scan(path: str, clock: Clock, **scan: Any) -> Any:
    """Return a scan of the table that counts its requests if the clock has a counter."""
    import lazydelta

    config = lazydelta.Config.from_env()
    if clock.accounting:
        config = replace(config, observer=clock.account)
    return lazydelta.Table.open(path, storage_options(), config=config).scan(**scan)


def _lazydelta_table(**scan: Any) -> Operation:
    def operation(path: str, clock: Clock) -> int:
        return _height(lazydelta_scan(path, clock, **scan).to_arrow(), clock)

    return operation


def _lazydelta_views(path: str, clock: Clock) -> int:
    import lazydelta

    views = lazydelta.ReadOptions(schema_force_view_types=True)
    return _height(lazydelta_scan(path, clock).to_arrow(views), clock)


def _lazydelta_stream(path: str, clock: Clock) -> int:
    return count_batches(lazydelta_scan(path, clock).to_batches(), clock)


def _lazydelta_file(path: str, clock: Clock) -> int:
    return _height(lazydelta_scan(path, clock, where=_in_last_file(path)).to_arrow(), clock)


def _lazydelta_count(path: str, clock: Clock) -> int:
    rows = int(lazydelta_scan(path, clock).count())
    clock.first()
    return rows


# --- deltalake ------------------------------------------------------------------------------------


def _deltalake_table(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    return _height(DeltaTable(path, storage_options=storage_options()).to_pyarrow_table(), clock)


def _deltalake_table_filter(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    ends = [("id", ">=", FILTER_IDS[0]), ("id", "<=", FILTER_IDS[1])]
    return _height(
        DeltaTable(path, storage_options=storage_options()).to_pyarrow_table(filters=ends), clock
    )


def _deltalake_reader(**scan: Any) -> Operation:
    def operation(path: str, clock: Clock) -> int:
        from deltalake import DeltaTable

        return _height(
            DeltaTable(path, storage_options=storage_options()).scan(**scan).read_all(), clock
        )

    return operation


def _deltalake_stream(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    return count_batches(DeltaTable(path, storage_options=storage_options()).scan(), clock)


def _deltalake_query(path: str, query: str) -> Any:
    from deltalake import DeltaTable, QueryBuilder

    return (
        QueryBuilder()
        .register("t", DeltaTable(path, storage_options=storage_options()))
        .execute(query)
        .read_all()
    )


def _deltalake_sql(query: str) -> Operation:
    def operation(path: str, clock: Clock) -> int:
        return _height(_deltalake_query(path, query), clock)

    return operation


def _deltalake_sql_file(path: str, clock: Clock) -> int:
    return _height(_deltalake_query(path, f"{_ALL_ROWS} where {_in_last_file(path)}"), clock)


def _deltalake_sql_count(path: str, clock: Clock) -> int:
    rows = int(_deltalake_query(path, "select count(*) from t").column(0)[0].as_py())
    clock.first()
    return rows


def _deltalake_count(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    rows = int(DeltaTable(path, storage_options=storage_options()).count())
    clock.first()
    return rows


def _deltalake_actions_count(path: str, clock: Clock) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    actions = DeltaTable(path, storage_options=storage_options()).get_add_actions()
    rows = int(pc.sum(pa.chunked_array(actions["num_records"])).as_py())
    clock.first()
    return rows


# --- Polars ---------------------------------------------------------------------------------------


def _polars(refine: Callable[[Any], Any]) -> Operation:
    def operation(path: str, clock: Clock) -> int:
        import polars as pl

        return _height(
            refine(pl.scan_delta(path, storage_options=storage_options())).collect(), clock
        )

    return operation


def _polars_file(path: str, clock: Clock) -> int:
    import polars as pl

    return _polars(lambda frame: frame.filter(pl.sql_expr(_in_last_file(path))))(path, clock)


def _polars_in_filter(frame: Any) -> Any:
    import polars as pl

    return frame.filter(pl.col("id").is_between(*FILTER_IDS))


def _polars_is_point(frame: Any) -> Any:
    import polars as pl

    return frame.filter(pl.col("id") == FILTER_IDS[0])


# --- raw pyarrow: the same data files and nothing else: no log, no vectors ------------------------


def _data_files(path: str) -> list[Path]:
    return sorted(Path(path).glob("*.parquet"))


def _raw_files(path: str, clock: Clock) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pq.ParquetFile(name).read() for name in _data_files(path)]
    return _height(pa.concat_tables(tables), clock)


def _raw_dataset(path: str, clock: Clock) -> int:
    import pyarrow.dataset as ds

    names = [str(name) for name in _data_files(path)]
    return _height(ds.dataset(names, format="parquet").to_table(), clock)


def _raw_stream(path: str, clock: Clock) -> int:
    import pyarrow.parquet as pq

    names = _data_files(path)
    return count_batches((b for n in names for b in pq.ParquetFile(n).iter_batches()), clock)


# --- the native decoder, parquet-rs as in deltalake: given rows of given files -------------------


def _decoded(places: Callable[[str], list[Place]]) -> Operation:
    """Decode given rows in two threads."""

    def operation(path: str, clock: Clock) -> int:
        from concurrent.futures import ThreadPoolExecutor

        import pyarrow as pa
        from lazydelta_decoder import read

        def rows_of(place: Place) -> Any:
            name, span = place
            rows = read(str(name), list(range(8)), [0], 1 << 20, span=span)
            return pa.RecordBatchReader.from_stream(rows).read_all()

        with ThreadPoolExecutor(2) as threads:
            return _height(pa.concat_tables(threads.map(rows_of, places(path))), clock)

    return operation


def _all_places(path: str) -> list[Place]:
    return [(name, None) for name in _data_files(path)]


def _places_in_filter(path: str) -> list[Place]:
    """Return the files with rows of `FILTER_IDS` and their row ranges; none may be deleted."""
    names = _data_files(path)
    total = _facts(path)["live_rows"]
    each = total // len(names)
    first, last = (-(-end * total // ID_SPAN) for end in (FILTER_IDS[0], FILTER_IDS[1] + 1))
    return [
        (names[at], (max(first - at * each, 0), min(last - at * each, each)))
        for at in range(first // each, -(-last // each))
    ]


ROW_OPERATIONS: dict[str, dict[str, Operation]] = {
    "lazydelta": {
        "read": _lazydelta_table(),
        "read: views": _lazydelta_views,
        "stream": _lazydelta_stream,
        "filter": _lazydelta_table(where=_IN_FILTER),
        "point": _lazydelta_table(where=_IS_POINT),
        "file": _lazydelta_file,
        "limit": _lazydelta_table(limit=ROW_LIMIT),
        "count": _lazydelta_count,
    },
    "deltalake": {
        "read: QueryBuilder": _deltalake_sql(_ALL_ROWS),
        "read: scan": _deltalake_reader(),
        "read: to_pyarrow_table": _deltalake_table,
        "stream": _deltalake_stream,
        "filter: QueryBuilder": _deltalake_sql(f"{_ALL_ROWS} where {_IN_FILTER}"),
        "filter: scan": _deltalake_reader(predicate=_IN_FILTER),
        "filter: to_pyarrow_table": _deltalake_table_filter,
        "point: QueryBuilder": _deltalake_sql(f"{_ALL_ROWS} where {_IS_POINT}"),
        "point: scan": _deltalake_reader(predicate=_IS_POINT),
        "file": _deltalake_sql_file,
        "limit": _deltalake_sql(f"{_ALL_ROWS} limit {ROW_LIMIT}"),
        "count": _deltalake_count,
        "count: QueryBuilder": _deltalake_sql_count,
        "count: get_add_actions": _deltalake_actions_count,
    },
    "polars": {
        "read": _polars(lambda frame: frame),
        "filter": _polars(_polars_in_filter),
        "point": _polars(_polars_is_point),
        "file": _polars_file,
        "limit": _polars(lambda frame: frame.head(ROW_LIMIT)),
    },
    "pyarrow": {"read": _raw_files, "read: dataset": _raw_dataset, "stream": _raw_stream},
}
"""Engine, workload, and the code a user of the engine would write. A variant follows `:`."""
if find_spec("lazydelta_decoder") is not None:
    ROW_OPERATIONS["lazydelta_decoder"] = {
        "read: decoding alone": _decoded(_all_places),
        "filter: decoding alone": _decoded(_places_in_filter),
    }
