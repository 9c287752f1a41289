from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.errors import ConfigError, ResumeTokenError
from tests.builders import TableBuilder
from tests.support import memory_store

NAMES = [f"f{number:02d}" for number in range(23)]


def table_of(*, config=None):
    store = memory_store()
    older, newer = " ".join(f"+{n}" for n in NAMES[:15]), " ".join(f"+{n}" for n in NAMES[15:])
    TableBuilder(store).commit(older).checkpoint().commit(newer)
    return Table(store, config or Config(batch_rows=4))


def paths(page):
    return page.files.column("path").to_pylist()


def all_pages(scan_of, size):
    """Read page after page, each from what `scan_of` gives."""
    token, found = None, []
    while True:
        page = scan_of().page(size, token)
        found.append(paths(page))
        if page.next is None:
            return found
        token = page.next


@pytest.mark.parametrize("size", [1, 4, 5, 22, 23, 24, 1000])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
@pytest.mark.parametrize("fresh", [True, False])
def test_pages_concatenate_to_the_scan(size, strategy, fresh):
    table = table_of()
    kept = table.scan(strategy=strategy)
    pages = all_pages(lambda: table.scan(strategy=strategy) if fresh else kept, size)
    whole = pa.Table.from_batches(table.scan(strategy=strategy).file_batches())
    assert [path for page in pages for path in page] == whole.column("path").to_pylist()
    assert all(len(page) == size for page in pages[:-1])
    assert 0 < len(pages[-1]) <= size


def test_an_earlier_page_can_be_read_again():
    scan = table_of().scan()
    first = scan.page(5)
    second = scan.page(5, first.next)
    scan.page(5, second.next)
    assert paths(scan.page(5, first.next)) == paths(second)
    assert paths(scan.page(5)) == paths(first)


def test_an_empty_page_has_the_schema_and_no_next():
    page = table_of().scan("1 = 2").page()
    assert page.files.num_rows == 0
    assert page.next is None
    assert page.files.schema == pa.Table.from_batches(table_of().scan().file_batches()).schema


def test_a_token_of_another_scan_is_refused():
    table = table_of()
    token = table.scan().page(5).next
    with pytest.raises(ResumeTokenError, match="another scan"):
        table.scan("1 = 1").page(5, token)


def test_pages_continue_after_a_new_checkpoint():
    store = memory_store()
    builder = TableBuilder(store).commit("+a +b").commit("+c")
    token = Table(store, Config()).scan().page(1).next
    builder.checkpoint()
    assert paths(Table(store, Config()).scan().page(5, token)) == ["a", "b"]


def test_a_page_has_at_least_one_file():
    with pytest.raises(ConfigError, match="integer >= 1"):
        table_of().scan().page(0)
