"""Golden tables through every way to read them on Spark, checked by the pack's own `check.py`."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

import lazydelta.spark as lds
from lazydelta.spark import to_arrow
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables

LEAST_READS = 140
REPLAY = "spark.lazydelta.distributedLogReplay"
SOME = (
    "dat__partitioned_with_null",
    "delta-golden__dv-with-columnmapping",
    "delta-rs__spark-shredded-variant-preview-delta",
    "kernel-rs__v2-checkpoints-json-with-sidecars",
)

pytestmark = [pytest.mark.acceptance, pytest.mark.spark4, NEEDS_PACK]


def by_read(spark, path, version=None):
    return to_arrow(lds.read(spark, path, version=version))


def by_format(spark, path, version=None, **options):
    if version is not None:
        options["versionAsOf"] = version
    return to_arrow(spark.read.format("lazydelta").options(**options).load(path))


def by_format_in_tasks(spark, path, version=None):
    return by_format(spark, path, version, fileThreshold=0, numPartitions=2)


def by_executors(spark, path, version=None):
    spark.conf.set(f"{REPLAY}.fileThreshold", "0")
    spark.conf.set(f"{REPLAY}.numPartitions", "2")
    try:
        return by_read(spark, path, version)
    finally:
        spark.conf.unset(f"{REPLAY}.fileThreshold")
        spark.conf.unset(f"{REPLAY}.numPartitions")


def by_name(spark, path, version=None):
    lds.attach(spark, {"golden": path if version is None else f"{path}@v{version}"})
    return to_arrow(spark.sql("SELECT * FROM golden"))


def by_sql(spark, path, version=None):
    pin = "" if version is None else f" VERSION AS OF {version}"
    return to_arrow(lds.sql(spark, f"SELECT * FROM delta.`{path}`{pin}"))


DOORS = (by_read, by_executors, by_format, by_format_in_tasks, by_name, by_sql)
TRAVELLING = (by_read, by_format)
"""Doors through which older versions are read too: each is a query of its own."""


@pytest.fixture(scope="module")
def check():
    """The pack's module that compares a reader with the facts."""
    spec = importlib.util.spec_from_file_location("golden_check", PACK / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def registered(spark):
    lds.register(spark)
    yield spark
    spark.sql("DROP TABLE IF EXISTS golden")


def differences(check, spark, door, tables):
    """Return what differs from the facts, and how many tables were read."""
    facts = check.Facts()
    found = {}
    for table in tables:
        options = SimpleNamespace(no_time_travel=door not in TRAVELLING, no_cdf=True, types=False)
        reader = SimpleNamespace(read=lambda path, version=None: door(spark, path, version))
        out = check.check_table(reader, str(PACK / "tables" / table["name"]), table, facts, options)
        if out:
            found[table["name"]] = out
    return found, facts.n.get("read", (0, 0))[0]


def named(names):
    return [table for table in golden_tables() if table["name"] in names]


@pytest.mark.parametrize("door", [by_format_in_tasks, by_name])
def test_some_golden_tables(registered, check, door):
    found, read = differences(check, registered, door, named(SOME[::2]))
    assert found == {}
    assert read == 2


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("door", DOORS)
def test_every_golden_table(registered, check, door):
    found, read = differences(check, registered, door, golden_tables())
    assert found == {}
    assert read >= LEAST_READS
