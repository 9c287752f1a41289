"""Values of INSERT ... VALUES: literals are stored together, with the values of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lazydelta as ld
from lazydelta.errors import ConstraintViolationError
from lazydelta.interop import insert_values
from lazydelta.interop.insert_values import constant_values
from lazydelta.schema import DecimalType, PrimitiveType, StructField

if TYPE_CHECKING:
    from pathlib import Path

LITERALS = ["1", "-7", "007", "'a'", "''", "'a\nb'", "1.5", "1.50", "-0.5", "12345.678", "NULL",
    "9223372036854775807", "-1.25", "'O\\'Hare'", "'it''s'", "1e3", "5L"]  # fmt: skip
TYPES = [PrimitiveType(name) for name in ("string", "double", "float", "long", "integer", "byte")]


def _values(values: list[str], kind: PrimitiveType | DecimalType) -> list[object]:
    column = StructField("c", kind)
    return constant_values(values, column, "t", now=0).to_pylist()


@pytest.mark.parametrize("kind", [*TYPES, DecimalType(12, 2), DecimalType(38, 10)], ids=str)
def test_a_literal_is_stored_like_the_same_expression(kind: PrimitiveType) -> None:
    stored = []
    for literal in LITERALS:
        try:
            stored.append((literal, _values([f"({literal})"], kind)[0]))
        except (ld.errors.PredicateError, ConstraintViolationError):
            with pytest.raises((ld.errors.PredicateError, ConstraintViolationError)):
                _values([literal], kind)
    literals = [literal for literal, _ in stored]
    assert len(stored) > 3
    assert _values(literals * 2, kind) == [value for _, value in stored] * 2


def test_the_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(ConstraintViolationError, match="c = 1000: cannot be computed"):
        _values(["1", "2", "1000", "3"], PrimitiveType("byte"))


def test_many_rows_bind_few_expressions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ld.Table.create(tmp_path, "id bigint, name string, amount double, flag boolean")
    bound, bind = [], insert_values.bind_expression

    def counted(sql: str, *args: object, **options: object) -> object:
        bound.append(sql)
        return bind(sql, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(insert_values, "bind_expression", counted)
    rows = ", ".join(f"({n}, 'name {n}', {n}.5, {n % 2} = 1)" for n in range(2_000))
    ld.sql(f"INSERT INTO t VALUES {rows}", {"t": table})
    assert sorted(bound) == ["0 = 1", "1 = 1", "value", "value", "value"]
    stored = table.to_arrow().sort_by("id")
    assert stored.slice(1_998).to_pylist() == [
        {"id": n, "name": f"name {n}", "amount": n + 0.5, "flag": n % 2 == 1} for n in (1998, 1999)
    ]
