"""Small tables to maintain, some with partition values whose directories are escaped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import lazydelta as ld

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MODES = pytest.mark.parametrize("mode", ["lite", "full"])
ODD = ["x y", "50%", "a/b", "é", "a%20b", "", None]
"""Partition values whose directories are escaped, or could be decoded twice."""


def rows(first, count=4):
    names = [ODD[i % len(ODD)] for i in range(first, first + count)]
    return pa.table(
        {"id": pa.array(range(first, first + count)), "p": pa.array(names, pa.string())}
    )


def make(directory, properties=None, **options):
    table = ld.Table.open(directory)
    table.write(rows(0), properties=properties or {}, **options)
    return table


def now_ms():
    return time.time_ns() // 10**6


def vacuum(table, **options):
    return table.vacuum(**{"retention": 2.2, "force": True, "dry_run": False, **options})


def removed_files(table):
    """Return the paths that removes of the log name, decoded once."""
    with_removes = [json.loads(line) for f in (Path(table.url) / "_delta_log").glob("*.json")
                    for line in f.read_text().splitlines()]  # fmt: skip
    return {unquote(a["remove"]["path"]) for a in with_removes if "remove" in a}


# --- random histories

steps = st.lists(
    st.sampled_from(["append", "delete", "delete-all", "update", "overwrite", "checkpoint"]),
    min_size=2,
    max_size=7,
)


def apply_steps(table, steps):
    for number, step in enumerate(steps, 1):
        if step == "append":
            table.write(rows(10 * number))
        elif step == "overwrite":
            table.write(rows(10 * number), mode="overwrite")
        elif step == "delete":
            table.delete(f"id % 3 = {number % 3}")
        elif step == "delete-all":
            table.delete()
        elif step == "update":
            table.update({"p": f"'{number} %'"}, where=f"id % 2 = {number % 2}")
        else:
            table.checkpoint()


def content(table, version):
    return sorted(map(repr, table.snapshot(version).to_arrow().to_pylist()))
