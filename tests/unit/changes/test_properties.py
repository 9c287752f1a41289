"""Applied to a version's rows, the changes of the next version give the next version's rows.

Random histories: appends, vectors that grow and shrink, files removed, updates with change files,
rewrites. Every version is read by an ordinary scan, which shares no code that decides on changes.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Table
from tests.unit.changes.support import FeedTable, changes

ROWS = 6
moves = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "vector", "remove", "update", "rewrite"]),
            st.integers(0, 3),
            st.sets(st.integers(0, ROWS - 1)),
        ),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=6,
)


class History:
    """Plays moves; every file has the ids `100 * file` to `100 * file + ROWS - 1`."""

    def __init__(self, directory):
        self.table = FeedTable(directory)
        self.live = {}  # path -> deleted rows
        self.ids = {}  # path -> ids
        self.next = 0
        self.actions, self.touched = [], set()
        self.append()
        self.table.commit(*self.actions)

    def append(self, ids=None, **how):
        path = f"f{self.next}"
        self.ids[path] = ids or [100 * self.next + row for row in range(ROWS)]
        self.next += 1
        self.live[path] = frozenset()
        self.touched.add(path)
        self.actions.append(self.table.add(path, {"id": self.ids[path]}, **how))

    def commit(self, steps):
        self.actions, self.touched, expected = [], set(), []
        with_files = any(kind == "update" for kind, _, _ in steps)
        for kind, which, rows in steps:
            free = sorted(path for path in self.live if path not in self.touched)
            if kind == "append" or not free:
                self.append()
                expected += [("insert", number) for number in self.ids[f"f{self.next - 1}"]]
                continue
            expected += self.change(kind, free[which % len(free)], frozenset(rows))
        if with_files and expected:
            columns = {"id": [n for _, n in expected], "_change_type": [k for k, _ in expected]}
            self.actions.append(self.table.cdc(f"c{self.table.log.version}", columns))
        self.table.commit(*self.actions)

    def change(self, kind, path, rows):
        """Play one move on a file; return the rows of its change file."""
        before, ids = self.live[path], self.ids[path]
        self.touched.add(path)
        kept = [number for row, number in enumerate(ids) if row not in before]
        flag = {"dataChange": kind != "rewrite"}
        self.actions.append(self.table.remove(path, deleted=before, **flag))
        if kind == "vector":
            rows = frozenset(row for row in rows if row < len(ids))
            self.live[path] = rows
            self.actions.append(self.table.add(path, deleted=rows))
            gone, back = rows - before, before - rows
            return [("delete", ids[row]) for row in gone] + [("insert", ids[row]) for row in back]
        del self.live[path]
        if kind == "remove" or not kept:
            return [("delete", number) for number in kept] if flag["dataChange"] else []
        moved = [-number - 1 for number in kept] if kind == "update" else kept
        self.append(moved, **flag)
        if kind == "rewrite":
            return []
        return [("update_preimage", n) for n in kept] + [("update_postimage", n) for n in moved]


@given(moves)
@settings(max_examples=25)
def test_applying_changes_yields_the_next_version(history):
    with tempfile.TemporaryDirectory() as directory:
        played = History(Path(directory))
        for steps in history:
            played.commit(steps)
        table = Table.open(directory)
        rows = Counter()
        for version in range(played.table.log.version + 1):
            for _, kind, (number,) in changes(played.table, version, version):
                rows[number] += 1 if kind in ("insert", "update_postimage") else -1
            shown = table.snapshot(version).scan().to_arrow().column("id").to_pylist()
            assert +rows == Counter(shown), f"version {version}"
            assert min(rows.values(), default=0) >= 0
        each = [c for v in range(version + 1) for c in changes(played.table, v, v)]
        assert changes(played.table) == sorted(each, key=repr)
