"""Tables that are maintained twice: on Spark, and a copy in one process."""

from __future__ import annotations

import shutil

import pyarrow as pa

import lazydelta as ld

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
KINDS = {
    "partitioned": ({}, ["p"]),
    "vectors-tracked": ({**VECTORS, **TRACKED}, []),
    "mapped-vectors-partitioned": ({**VECTORS, **MAPPED}, ["p"]),
}
FILES, ROWS = 6, 40


def rows_of_file(number):
    ids = [*range(number * ROWS, (number + 1) * ROWS)]
    values = {
        "id": ids,
        "p": ["ab"[n % 2] if n % 5 else None for n in ids],
        "x": [n % 97 for n in ids],
    }
    return pa.table({**values, "a-b": [f"name {n}" for n in ids]})


def create(url, kind="vectors-tracked", *, cluster_by=()):
    """Return a table of small files, some with deleted rows."""
    properties, partition_by = KINDS[kind]
    ld.write(url, rows_of_file(0), properties=properties, partition_by=partition_by)
    table = ld.Table.open(url)
    if cluster_by:
        table.alter.cluster_by(list(cluster_by))
    for number in range(1, FILES):
        table.write(rows_of_file(number))
    if properties.get("delta.enableDeletionVectors"):
        table.delete("id % 11 = 3")
    return table


class Twins:
    """The same table twice; `spark` and `local` are their locations."""

    def __init__(self, directory, kind="vectors-tracked", **options):
        self.spark, self.local = str(directory / "spark"), str(directory / "local")
        create(self.spark, kind, **options)
        shutil.copytree(self.spark, self.local)

    @property
    def table(self):
        """The copy that one process maintains."""
        return ld.Table.open(self.local)

    def check(self):
        """Compare rows, and row ids if the table tracks them."""
        assert rows_of(self.spark) == rows_of(self.local)
        assert ld.Table.open(self.spark).check().checksum.status == "matches"


def rows_of(url):
    """Return the rows of a table with their ids, in order."""
    table = ld.Table.open(url)
    options = {}
    if table.snapshot().properties.row_tracking:
        options = {"row_id_column": "row id", "row_commit_version_column": "row version"}
    rows = table.to_arrow(ld.ReadOptions(**options)).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def files_of(url):
    """Return what the log says of the live files, apart from their names."""
    return sorted(
        (repr(f.partition_values), f.num_records, f.size, f.deletion_vector is not None)
        for f in ld.Table.open(url).scan().files()
    )
