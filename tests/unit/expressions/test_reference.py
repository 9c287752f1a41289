"""The reference page lists the functions that the signature table has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lazydelta.expressions.functions import (
    ALIASES,
    CHOICES,
    COLLECTIONS,
    DATE_UNITS,
    FUNCTIONS,
    SPECIAL_FORMS,
    TRIED,
    VARIADIC,
)
from lazydelta.expressions.kernels import GENERAL, KERNELS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql-expressions.md"
ROW = re.compile(r"^\| `(\w+)`(?: \(([^)]*)\))? \|", re.MULTILINE)


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def documented(page):
    rows = ROW.findall(page.split("## Functions")[1])
    return {name: sorted(re.findall(r"\w+", aliases)) for name, aliases in rows}


def test_every_function_is_documented(documented):
    known = {name for name, _ in FUNCTIONS} | CHOICES.keys() | SPECIAL_FORMS | {"negative"}
    assert set(documented) == known | VARIADIC.keys() | TRIED.keys() | {*COLLECTIONS}


def test_every_alias_is_documented(documented):
    for name, aliases in documented.items():
        known = sorted(
            alias for alias, of in ALIASES.items() if of == name and alias.isidentifier()
        )
        assert aliases == known, name


def test_every_unit_is_documented(page):
    assert all(f"`{unit}`" in page for unit in set(DATE_UNITS.values()))


def test_every_function_has_a_kernel():
    rewritten = {"coalesce", "nanvl", "struct"}
    names = {name for name, _ in FUNCTIONS} | CHOICES.keys() | VARIADIC.keys() | TRIED.keys()
    assert names | {*COLLECTIONS} <= KERNELS.keys() | GENERAL.keys() | rewritten
    assert {name for (name, _), one in FUNCTIONS.items() if one.general} == GENERAL.keys()
