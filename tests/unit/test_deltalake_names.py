"""The names of deltalake: errors that name ours, and a page that lists them all."""

from __future__ import annotations

import re
from pathlib import Path

import deltalake
import pytest

import lazydelta as ld
from lazydelta._deltalake_names import MODULE_NAMES, TABLE_NAMES

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "coming-from-deltalake.md"
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")
ABOUT_DELTALAKE_ITSELF = {
    *("__version__", "rust_core_version", "init_tracing", "enable_nanosecond_timestamps")
}


def public(names):
    return {name for name in names if not name.startswith("_")}


def rows_of(title):
    """Return the names in the first column of a section's table, with the second column."""
    (section,) = [text for text in SECTIONS if text.startswith(title + "\n")]
    _, _, body = section.partition("|---|---|\n")
    rows = re.findall(r"^\| `(\w+)(?:\(\))?` \| (.+) \|$", body, re.MULTILINE)
    return {name: ours.replace("`", "") for name, ours in rows}


@pytest.mark.parametrize("name", sorted(TABLE_NAMES))
def test_a_missing_attribute_of_a_table_names_ours(tmp_path, name):
    ours = TABLE_NAMES[name] or "does not have it yet"
    with pytest.raises(AttributeError, match=re.escape(ours)) as raised:
        getattr(ld.Table.open(tmp_path), name)
    assert repr(name) in str(raised.value)


@pytest.mark.parametrize("name", sorted(MODULE_NAMES))
def test_a_missing_name_of_the_module_names_ours(name):
    with pytest.raises(AttributeError, match=re.escape(MODULE_NAMES[name] or "not have it yet")):
        getattr(ld, name)


def test_an_attribute_that_neither_package_has(tmp_path):
    with pytest.raises(AttributeError, match=r"^'Table' object has no attribute 'nonsense'$"):
        _ = ld.Table.open(tmp_path).nonsense
    with pytest.raises(AttributeError, match=r"^module 'lazydelta' has no attribute 'nonsense'$"):
        _ = ld.nonsense


def test_every_name_of_deltalake_is_ours_or_has_a_row():
    assert public(dir(deltalake.DeltaTable)) - public(dir(ld.Table)) <= TABLE_NAMES.keys()
    theirs = set(deltalake.__all__) - ABOUT_DELTALAKE_ITSELF
    assert theirs - set(ld.__all__) <= MODULE_NAMES.keys()
    assert not public(dir(ld.Table)) & TABLE_NAMES.keys()
    assert not set(ld.__all__) & MODULE_NAMES.keys()


@pytest.mark.parametrize(
    ("title", "names", "theirs"),
    [
        ("The module", MODULE_NAMES, set(deltalake.__all__) - ABOUT_DELTALAKE_ITSELF),
        ("`DeltaTable`", TABLE_NAMES, public(dir(deltalake.DeltaTable))),
        ("`DeltaTable.alter`", {}, public(dir(deltalake.table.TableAlterer))),
        ("`DeltaTable.optimize`", {}, public(dir(deltalake.table.TableOptimizer))),
    ],
)
def test_the_page_lists_every_name(title, names, theirs):
    rows = rows_of(title)
    assert rows.keys() == theirs | names.keys()
    for name, ours in names.items():
        assert rows[name] == (ours or "not available yet")
