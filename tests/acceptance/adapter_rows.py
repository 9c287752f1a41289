"""Golden adapter for rows and scan plans; the pack's README has its interface."""

from __future__ import annotations

from lazydelta import Table

NAME = "lazydelta-rows"


def plan(path, version=None):
    with Table.open(path).snapshot(version=version).scan().files() as files:
        return [(f.path, f.deletion_vector and f.deletion_vector.cardinality) for f in files]


def read(path, version=None):
    scan = Table.open(path).snapshot(version=version).scan()
    return scan.to_arrow()
