"""Data skipping: the files that may hold matching rows, by partition values and statistics.

python examples/where.py
"""

from __future__ import annotations

from sample_table import table_to_show

import lazydelta as ld
from lazydelta import col

PREDICATES = {
    "a SQL string": "day = '2026-03-01'",
    "an expression": (col("day") >= "2026-03-01") & (col("day") < "2026-03-03"),
    "statistics": "id BETWEEN 5000000 AND 5100000",
    "nothing": "day = '1999-12-31'",
}

with table_to_show() as url:
    snapshot = ld.Table.open(url).snapshot()
    for name, predicate in PREDICATES.items():
        scan = snapshot.scan(where=predicate)
        count = sum(batch.num_rows for batch in scan.file_batches())
        explanation = scan.explain()
        groups, pruned = explanation["checkpoint"], explanation["files"]["pruned"]
        print(
            f"{name:<14} {count:>4} files, {pruned:>6,} pruned, {groups['row_groups_read']} of "
            f"{groups['row_groups']} row groups read: {scan.predicate}"
        )
