from __future__ import annotations

import pytest

from lazydelta.serving import ScanService, ServeConfig
from lazydelta.serving.access import ANONYMOUS
from tests.builders import TableBuilder


@pytest.mark.parametrize("version", [None, 0])
def test_entries_with_one_address_share_no_store(tmp_path, version):
    TableBuilder(tmp_path).commit("+a")
    service = ScanService(ServeConfig.for_tables({"a": str(tmp_path), "b": str(tmp_path)}))
    stores = []
    for name in ("a", "b"):
        table = service.tables.open(ANONYMOUS, name)
        assert table.snapshot(version) is table.snapshot(0), "scans of one entry share it"
        stores.append(table.snapshot(version).store)
    assert stores[0] is not stores[1]
