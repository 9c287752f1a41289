"""Tables that DELETE, UPDATE and MERGE change twice: on Spark, and a copy in one process."""

from __future__ import annotations

import random
import shutil

import pyarrow as pa

import lazydelta as ld

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
KINDS = {
    "rewritten-feed": (FEED, ()),
    "vectors-feed-partitioned": ({**VECTORS, **FEED}, ("p",)),
    "vectors-mapped": ({**VECTORS, **MAPPED}, ()),
}
SCHEMA = pa.schema([
    ("id", pa.int64()), ("p", pa.string()), ("v", pa.float64()), ("a-b", pa.string()),
    ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])),
])  # fmt: skip
_STRINGS = ["", "é", "x'y", "\U0001f600", "z" * 40, None]


def random_rows(seed, count, ids=200):
    choose = random.Random(seed)
    values = [None, float("nan"), -0.0, 0.0, 1.5, -2.0]
    return [
        {
            "id": choose.choice([None, *range(ids)]) if choose.random() < 0.1 else n,
            "p": choose.choice(["a", "b", "c d", None]),
            "v": choose.choice(values),
            "a-b": choose.choice(_STRINGS),
            "st": choose.choice([None, {"x": n, "y": "q"}, {"x": None, "y": None}]),
        }
        for n in choose.sample(range(ids), count)
    ]


class Twins:
    """The same table twice; `spark` and `local` are their locations."""

    def __init__(self, directory, kind, rows):
        properties, partition_by = KINDS[kind]
        self.spark, self.local = str(directory / "spark"), str(directory / "local")
        third = len(rows) // 3 + 1
        for start in range(0, len(rows), third):
            part = pa.Table.from_pylist(rows[start : start + third], SCHEMA)
            first = {"properties": properties, "partition_by": list(partition_by)}
            ld.write(self.spark, part, **({} if start else first))
        shutil.copytree(self.spark, self.local)
        self.has_feed = "feed" in kind

    @property
    def table(self):
        """The copy that one process changes."""
        return ld.Table.open(self.local)

    def check(self, on_spark, here):
        """Compare results, rows and changes of the last operation."""
        assert on_spark.version == here.version
        assert _rows_of(on_spark.metrics) == _rows_of(here.metrics)
        assert plain(self._rows(self.spark)) == plain(self._rows(self.local))
        assert ld.Table.open(self.spark).check().checksum.status == "matches"
        if self.has_feed:
            changes = [self._changes(url, here.version) for url in (self.spark, self.local)]
            assert changes[0] == changes[1]

    @staticmethod
    def _rows(url):
        return ld.Table.open(url).scan().to_arrow().to_pylist()

    @staticmethod
    def _changes(url, version):
        feed = ld.Table.open(url).changes(starting_version=version, ending_version=version)
        columns = ["_change_type", "_commit_version"]
        rows = feed.to_arrow().to_pylist()
        return plain(rows, columns)


def _rows_of(metrics):
    """The metrics that count rows; those of files depend on tasks."""
    names = ("numDeletedRows", "numUpdatedRows", "numSourceRows", "numTargetRows")
    known = {name: n for name, n in metrics.items() if name.startswith(names)}
    return {name: n for name, n in known.items() if not name.endswith("Copied")}


def plain(rows, extra=()):
    """Rows that compare equal if their values do, NaN included."""
    names = [*SCHEMA.names, *extra]
    return sorted(repr([row.get(name) for name in names]) for row in rows)
