"""Rows of a table, read by two engines."""

from __future__ import annotations

import deltalake
import pyarrow as pa

from lazydelta import Table

__all__ = ["rows", "same_rows", "theirs"]


def rows(path, version=None):
    """Return the rows as lazydelta reads them, in a fixed order."""
    return _sorted(Table.open(path).snapshot(version).to_arrow().to_pylist())


def theirs(path, version=None):
    """Return the rows as deltalake reads them."""
    table = deltalake.DeltaTable(path, version=version)
    query = deltalake.QueryBuilder().register("t", table).execute("select * from t")
    return _sorted(pa.table(query.read_all()).to_pylist())


def same_rows(path, version=None):
    """Return the rows, after checking that both engines read the same."""
    ours = rows(path, version)
    assert theirs(path, version) == ours
    return ours


def _sorted(found):
    return sorted(found, key=repr)
