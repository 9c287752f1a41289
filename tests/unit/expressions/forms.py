"""Everyday Spark SQL expressions without columns, with the type and the value that Spark gives.

`FORMS` are supported; `tests/spark/test_expression_forms.py` compares all of them with Spark, which
wrote the golden file. `REFUSED` are not, though Spark computes them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from lazydelta.expressions.binding import bind_value
from lazydelta.expressions.coercion import type_of
from lazydelta.expressions.evaluation import evaluate_checked
from lazydelta.expressions.parser import parse_expression
from lazydelta.schema import StructType

__all__ = ["FORMS", "REFUSED", "as_string", "computed", "golden"]

GOLDEN = Path(__file__).parent / "golden" / "forms.json"
FORMS = (Path(__file__).parent / "golden" / "forms.sql").read_text().splitlines()

REFUSED = [
    ("split('abc', 'b*')", "constant"),
    ("regexp_replace('abc', 'b*', '-')", "constant"),
    ("regexp_extract('ab', 'ab', 1)", "constant"),
    ("'a' rlike '(?i)A'", "constant"),
    ("reverse(array(1, 2))", "takes strings"),
    ("array_contains(array(1, 2), 1.0)", "explicit CAST"),
    ("array_contains(array(1, 2), null)", "explicit CAST"),
    ("array()", "does not take"),
    ("named_struct('a', null)", "needs a CAST"),
    ("map('a', 1) = map('a', 1)", "cannot be compared"),
    ("array(1) = array(1)", "cannot be compared"),
    ("greatest('a', 1)", "one type"),
    ("greatest(array(1), array(2))", "cannot be compared"),
    ("hash(array(1))", "does not support array"),
    ("date'2024-01-31' - date'2024-01-01'", "integer number of days"),
    ("exists(array(1), x -> x > 0)", "expected"),
    ("struct(1 as a)", "expected"),
    ("cast(array(1) as array<bigint>)", "expected a type"),
    ("to_date('1', 'Md')", "constant"),
    ("to_date('x', 'EEE')", "constant"),
    ("to_timestamp('1', 'hh')", "constant"),
    ("date_format(date'2024-01-01', 'Q')", "constant"),
    ("date_format(date'2024-01-01', 'XXX')", "constant"),
    ("interval 1 day 2 hours", "expected the end"),
    ("interval 1.5 days", "whole number"),
    ("interval 1 day * 2", "interval is added"),
    ("rand()", "no function 'rand'"),
    ("uuid()", "no function 'uuid'"),
    ("sum(1)", "no function 'sum'"),
    ("explode(array(1))", "no function 'explode'"),
    ("named_struct('a', 1).b", "no field 'b'"),
    ("coalesce(interval 1 day, 1)", "interval is added"),
    ("- interval 1 day", "interval is added"),
    ("interval 1 day is null", "interval is added"),
    ("trunc(date'2024-01-01', 'hour')", "constant"),
]
"""Spark computes most of these; the message has the given part."""


def computed(sql: str) -> list[str]:
    """Return the type and the value of an expression as strings; the value may be `failed`."""
    node = bind_value(parse_expression(sql), StructType(()))
    result = evaluate_checked(node, lambda _: None, 1)
    values = result.values
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, 1)
    values.validate(full=True)
    return [str(type_of(node)), "failed" if result.failed is not None else as_string(values)]


def as_string(values: pa.Array) -> str:
    """Return the first value as a comparable string: times as numbers, floats with all digits."""
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return repr(values[0].as_py())


def golden() -> dict[str, list[str]]:
    """Return the results of Spark."""
    return json.loads(GOLDEN.read_text())


if __name__ == "__main__":  # after adding a form; the Spark test verifies it
    lines = (f"{json.dumps(sql)}: {json.dumps(computed(sql))}" for sql in FORMS)
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
