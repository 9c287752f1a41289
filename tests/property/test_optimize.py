"""OPTIMIZE, clustering and purge in any order, with rivals that write at the same time.

The oracle is a dictionary: every version keeps its rows, every row keeps its id, and after a rival's
delete only the bins with its files are rewritten again.
"""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.operations.optimize.rewriting import Rewriter
from tests.support import examples

FILE_ROWS = 6
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
IDS = ld.ReadOptions(row_id_column="rid")

verbs = st.sampled_from(["append", "append", "delete", "update"])
rewrites = st.sampled_from(["compact", "cluster", "full", "purge"])
rivals = st.sampled_from(["", "append", "delete"])


class Model:
    """A table, and the rows that it must have."""

    def __init__(self, place, *, clustered, vectors, tracked):
        properties = {
            "delta.enableDeletionVectors": str(vectors).lower(),
            "delta.enableRowTracking": str(tracked).lower(),
        }
        layout = {"cluster_by": ["v", "id"]} if clustered else {"partition_by": ["p"]}
        columns = "id bigint, p string, v bigint"
        self.table = ld.Table.create(place, columns, properties=properties, **layout)
        self.clustered, self.tracked = clustered, tracked
        self.rows: dict[int, tuple] = {}
        self.versions: dict[int, list] = {}
        self.row_ids: dict[int, int] = {}
        self.next = 0

    def change(self, verb):
        table = ld.Table.open(self.table.url)
        if verb == "append":
            new = range(self.next, self.next + FILE_ROWS)
            self.next += FILE_ROWS
            rows = [(number, "ab"[number % 2], number * 37 % 100) for number in new]
            columns = zip(*rows, strict=True)
            table.write(pa.table([pa.array(c) for c in columns], schema=SCHEMA))
            self.rows |= {row[0]: row for row in rows}
        elif verb == "delete":
            number = min(self.rows, default=0)
            table.delete(f"id = {number}")
            self.rows.pop(number, None)
        else:
            table.update({"v": "v + 1"}, where="id % 5 = 2")
            self.rows |= {
                n: (n, p, v + 1) for n, (_, p, v) in self.rows.items() if n % 5 == 2
            }  # fmt: skip

    def rewrite(self, kind, rival):
        """Rewrite files; the rival runs after the first bin is rewritten."""
        rewrite, rounds = Rewriter.rewrite, []

        def race(rewriter, snapshot, one):
            done = rewrite(rewriter, snapshot, one)
            rounds.append(one.round)
            if rival and len(rounds) == 1:
                self.change(rival)
            return done

        with (
            mock.patch.object(Rewriter, "rewrite", race),
            mock.patch.object(Rewriter, "bins_at_once", 1),
        ):
            if kind == "purge":
                result = self.table.purge()
            elif kind == "compact":
                result = self.table.optimize(cluster=False, batch_bytes=2000)
            elif self.clustered:
                result = self.table.optimize(full=kind == "full")
            else:
                result = self.table.optimize(z_order=["v", "id"])
        assert sum(number > 0 for number in rounds) <= (rival == "delete"), rounds
        assert not result.warnings

    def check(self):
        found = self.table.to_arrow(IDS if self.tracked else None).to_pylist()
        ids = {row["id"]: row.pop("rid", None) for row in found}
        assert sorted(tuple(row.values()) for row in found) == sorted(self.rows.values())
        if self.tracked:
            assert len(set(ids.values())) == len(ids)
            assert {n: ids[n] for n in self.row_ids if n in ids} == {
                n: row_id for n, row_id in self.row_ids.items() if n in self.rows
            }
            self.row_ids = ids
        self.versions[self.table.version] = sorted(self.rows.values())

    def check_versions(self):
        assert self.table.check().ok
        for version, expected in self.versions.items():
            rows = self.table.snapshot(version).to_arrow().to_pylist()
            assert sorted(tuple(row.values()) for row in rows) == expected, version


@examples(12, long=500)
@given(
    steps=st.lists(
        st.one_of(verbs.map(lambda verb: (verb, None)), st.tuples(rewrites, rivals)),
        min_size=3,
        max_size=8,
    ),
    clustered=st.booleans(),
    vectors=st.booleans(),
    tracked=st.booleans(),
)
def test_rows_and_ids_survive_rewrites_with_rivals(
    tmp_path_factory, steps, clustered, vectors, tracked
):
    place = tmp_path_factory.mktemp("t")
    model = Model(place, clustered=clustered, vectors=vectors, tracked=tracked)
    for _ in range(2):
        model.change("append")
    for step, rival in steps:
        if rival is None:
            model.change(step)
        else:
            model.rewrite(step, rival)
        model.check()
    model.check_versions()
