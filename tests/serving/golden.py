"""What the golden tables of the pack have in process, to compare with what a door delivers."""

from __future__ import annotations

import pyarrow as pa

from lazydelta import Config, Table
from lazydelta.config import ReadOptions
from lazydelta.errors import DeltaError
from lazydelta.scan import FileRecords
from tests.golden_pack import PACK, golden_tables

CAPABILITIES = ("columnMapping", "deletionVectors", "typeWidening", "variantType")
RECORDS = FileRecords(capabilities=frozenset(CAPABILITIES))
LIMITS = {"batch_files": 3, "batch_rows": 7}
MOST_ROWS = 700

ENTRIES = {f"table{number}": entry for number, entry in enumerate(golden_tables())}
TABLES = {name: entry["name"] for name, entry in ENTRIES.items()}
PATHS = {name: str(PACK / "tables" / table) for name, table in TABLES.items()}
_SOME = (
    *("dat__with_checkpoint", "dat__multi_partitioned", "dat__column_mapping"),
    *("dat__all_primitive_types", "dat__nested_types", "delta-golden__checkpoint"),
    *("delta-golden__basic-with-inserts-merge", "delta-golden__log-replay-dv-key-cases"),
)
SOME = [name for name, table in TABLES.items() if table in _SOME]
REST = [name for name in TABLES if name not in SOME]

_CONFIG = Config(
    batch_rows=LIMITS["batch_files"], read=ReadOptions(batch_rows=LIMITS["batch_rows"])
)


def in_process(name, mode):
    """Return the files or rows of a table, or the error that it ends with."""
    try:
        scan = Table.open(PATHS[name], config=_CONFIG).scan(
            limit=MOST_ROWS if mode == "rows" else None, strategy="reverse"
        )
        if mode == "rows":
            return scan.to_arrow()
        with scan.resumable_files(records=RECORDS) as delivered:
            batches = [batch for batch, _ in delivered]
        assert sum(batch.num_rows for batch in batches) == len(list(scan.files()))
        return pa.Table.from_batches(batches, scan.file_record_schema(RECORDS))
    except DeltaError as error:
        return error


def is_same(found, expected):
    """Whether two tables are equal; NaN equals NaN."""
    if found.equals(expected):
        return True
    return found.schema == expected.schema and repr(found.to_pylist()) == repr(expected.to_pylist())
