"""What a notebook shows: escaped HTML, made without I/O, that never raises."""

from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta.schema import PrimitiveType, StructField, StructType
from lazydelta.store import MemoryStore
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def store():
    store = MemoryStore()
    TableBuilder(store, schema={"id": "long", HOSTILE: "string"}).commit("+a").commit("+b")
    return MeteredStore(store)


def test_a_table_shows_its_url_and_reads_nothing(store):
    shown = Table(store, Config())._repr_html_()
    assert store.root in shown
    assert store.requests == 0


def test_a_snapshot_shows_version_and_columns_and_reads_nothing(store):
    snapshot = Table(store, Config()).snapshot()
    store.reset()
    shown = snapshot._repr_html_()
    assert "<td>version</td><td>1</td>" in shown
    assert "<td>id</td><td>long</td><td>yes</td>" in shown
    assert store.requests == 0


def test_a_schema_shows_comments_and_only_so_many_columns():
    fields = [StructField(f"c{n}", PrimitiveType("long"), nullable=False) for n in range(1099)]
    commented = StructField("id", PrimitiveType("long"), metadata={"comment": "a & b"})
    shown = StructType((commented, *fields))._repr_html_()
    assert "a &amp; b" in shown
    assert "<td>c98</td><td>long</td><td>no</td>" in shown
    assert "c99" not in shown
    assert "1,000 more columns" in shown


def test_a_report_of_a_scan_shows_its_levels(store):
    scan = Table(store, Config()).scan("id > 3")
    list(scan.files())
    shown = scan.explain()._repr_html_()
    assert "<td>strategy</td>" in shown
    assert "id &gt; 3" in shown
    assert "<td>scanned</td><td>2</td>" in shown


def test_names_of_a_table_are_escaped(store):
    shown = Table(store, Config()).snapshot()._repr_html_()
    assert HOSTILE not in shown
    assert "&lt;script&gt;" in shown


def test_it_never_raises():
    class Failing(MemoryStore):
        @property
        def root(self):
            raise OSError("gone")

    assert Table(Failing(), Config())._repr_html_().startswith("<pre>&lt;")
