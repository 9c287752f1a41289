"""pyarrow's filter expressions: which columns they name, and what they mean as a `Predicate`.

An `Expression` cannot be looked into from Python, but it pickles, as an Arrow batch: literals and
options are its columns, the tree is the sequence of keys in its metadata (keys repeat, so they are
read through Arrow's C interface, which keeps them all). Whatever is not understood is left out.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.errors import DeltaError
from lazydelta.expr import Constant
from lazydelta.interop.conditions import FLIPPED, Conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.expr import Predicate
    from lazydelta.schema import StructType

__all__ = ["ArrowFilter", "read_filter"]

_COMPARE = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MATCH_NULL, _SKIP_NULL = 0, 1
_MICROS = "us"


class _NotUnderstoodError(Exception):
    """The expression has something that this module does not know."""


# What a form of the pickle that we have not seen yet could run into.
_FOREIGN_ERRORS = (_NotUnderstoodError, pa.ArrowException, TypeError, ValueError, LookupError)


@dataclass(frozen=True, slots=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Literal:
    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    args: tuple[_Part, ...]
    options: dict[str, Any]


_Part = _Field | _Literal | _Call


@dataclass(frozen=True, slots=True)
class ArrowFilter:
    """What is known of an expression.

    Attributes:
        columns: The top-level columns it needs; None if that cannot be told.
        predicate: True wherever the expression is; None if nothing could be translated.
        key: The same for two equal expressions.
    """

    columns: frozenset[str] | None
    predicate: Predicate | None
    key: bytes | None


def read_filter(expression: Any, schema: StructType) -> ArrowFilter:
    """Return what an expression over the columns of a table needs and means."""
    try:
        _, (buffer,) = expression.__reduce__()
        root = _parsed(buffer)
    except _FOREIGN_ERRORS:
        return ArrowFilter(None, None, None)
    columns = frozenset(part.path[0] for part in _walk(root) if isinstance(part, _Field))
    conditions = Conditions(schema, nan_is_greatest=False)
    try:
        predicate = _Translation(conditions).where(root, exact=False)
    except (*_FOREIGN_ERRORS, DeltaError):
        predicate = None
    return ArrowFilter(columns, predicate, buffer.to_pybytes())


# --- reading the pickled form -------------------------------------------------------------------


def _parsed(buffer: pa.Buffer) -> _Part:
    reader = pa.ipc.open_file(buffer)
    batch = reader.get_batch(0)
    return _Parser(batch, list(_metadata(batch.schema))).part()


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a schema in order; pyarrow's own dictionary drops repeated keys.

    The third pointer of an `ArrowSchema` is to a count and that many pairs of key and value,
    each a length and so many bytes; all numbers are 32 bits in the machine's order.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, b"arrow_schema")
    at = ctypes.c_void_p.from_address(address + 2 * ctypes.sizeof(ctypes.c_void_p)).value
    if at is None:
        return
    count = ctypes.c_int32.from_address(at).value
    at += 4
    for _ in range(count):
        pair = []
        for _ in range(2):
            length = ctypes.c_int32.from_address(at).value
            pair.append(ctypes.string_at(at + 4, length).decode())
            at += 4 + length
        yield pair[0], pair[1]


class _Parser:
    """Reads one tree from the sequence of its parts."""

    def __init__(self, batch: pa.RecordBatch, steps: list[tuple[str, str]]) -> None:
        self._batch = batch
        self._steps = iter(steps)

    def part(self) -> _Part:
        return self._part(*next(self._steps, ("", "")))

    def _part(self, kind: str, value: str) -> _Part:
        if kind == "literal":
            return _Literal(self._batch.column(int(value))[0])
        if kind == "field_ref":
            return _Field((value,))
        if kind == "nested_field_ref":
            steps = [next(self._steps, ("", "")) for _ in range(int(value))]
            if any(step != "field_ref" for step, _ in steps):
                raise _NotUnderstoodError
            return _Field(tuple(name for _, name in steps))
        if kind != "call":
            raise _NotUnderstoodError
        return self._call(value)

    def _call(self, name: str) -> _Call:
        args: list[_Part] = []
        options: dict[str, Any] = {}
        for kind, value in self._steps:
            if kind == "end":
                return _Call(name, tuple(args), options)
            if kind == "options":
                scalar = self._batch.column(int(value))[0]
                options = dict(scalar.items())
            else:
                args.append(self._part(kind, value))
        raise _NotUnderstoodError


def _walk(part: _Part) -> Iterator[_Part]:
    stack = [part]
    while stack:
        found = stack.pop()
        yield found
        if isinstance(found, _Call):
            stack.extend(found.args)


# --- meaning ------------------------------------------------------------------------------------


class _Translation:
    """Turns parts into predicates.

    `exact` asks for the same truth on every row, which a NOT needs below it; without it, a
    predicate may be true for more rows, so that a condition that is not known can be left out of
    an AND.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions

    def where(self, part: _Part, *, exact: bool) -> Predicate | None:
        if isinstance(part, _Field):
            return self._conditions.is_true(part.path)
        if isinstance(part, _Literal):
            return _constant(part.scalar)
        if part.name in _COMPARE:
            return self._compare(_COMPARE[part.name], part.args, exact=exact)
        rule = _RULES.get(part.name)
        return None if rule is None else rule(self, part, exact)

    def both(self, part: _Call, exact: bool) -> Predicate | None:
        left, right = (self.where(arg, exact=exact) for arg in part.args)
        if left is not None and right is not None:
            return left & right
        if exact:
            return None
        return right if left is None else left

    def either(self, part: _Call, exact: bool) -> Predicate | None:
        left, right = (self.where(arg, exact=exact) for arg in part.args)
        return None if left is None or right is None else left | right

    def negated(self, part: _Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        inner = self.where(part.args[0], exact=True)
        return None if inner is None else ~inner

    def is_null(self, part: _Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        if not isinstance(part.args[0], _Field) or _plain(part.options.get("nan_is_null")):
            return None
        return self._conditions.is_null(part.args[0].path)

    def is_valid(self, part: _Call, exact: bool) -> Predicate | None:
        found = self.is_null(part, exact)
        return None if found is None else ~found

    def is_nan(self, part: _Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        field = part.args[0]
        return self._conditions.is_nan(field.path) if isinstance(field, _Field) else None

    def is_in(self, part: _Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        """Translate `is_in`, for which NULL is just another value, and mostly in no set."""
        given = _value_set(part)
        if given is None:
            return None
        path, values, has_null = given
        found = self._conditions.is_in(path, values, null_is_false=True)
        null = self._conditions.is_null(path)
        if found is None or null is None:
            return None
        return found | null if has_null else found

    def if_else(self, part: _Call, exact: bool) -> Predicate | None:
        """Translate `if_else(is_valid(x), is_in(x), null)`, which is how DuckDB sends an IN.

        Of any other `if_else(condition, then, null)` it is known that it is true only where
        `then` is.
        """
        condition, then, other = part.args
        if not isinstance(other, _Literal) or other.scalar.is_valid:
            return None
        given = _value_set(then)
        if given is not None and condition == _Call("is_valid", (_Field(given[0]),), {}):
            path, values, has_null = given
            return None if has_null else self._conditions.is_in(path, values, null_is_false=False)
        return None if exact else self.where(then, exact=False)

    def starts_with(self, part: _Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        field, prefix = part.args[0], _plain(part.options.get("pattern"))
        if not isinstance(field, _Field) or _plain(part.options.get("ignore_case")) is not False:
            return None
        prefix = prefix.decode() if isinstance(prefix, bytes) else prefix
        return self._conditions.starts_with(field.path, prefix)

    def _compare(self, op: str, args: tuple[_Part, ...], *, exact: bool) -> Predicate | None:
        left, right = args
        if isinstance(left, _Literal):
            op, left, right = FLIPPED[op], right, left
        if not isinstance(left, _Field):
            return None
        if isinstance(right, _Field):
            return self._conditions.compare_columns(op, left.path, right.path, exact=exact)
        if not isinstance(right, _Literal):
            return None
        value = _value(right.scalar)
        if value is NotImplemented:
            return None
        return self._conditions.compare(op, left.path, value, exact=exact)


_RULES: dict[str, Callable[[_Translation, _Call, bool], Predicate | None]] = {
    "and": _Translation.both,
    "and_kleene": _Translation.both,
    "or": _Translation.either,
    "or_kleene": _Translation.either,
    "invert": _Translation.negated,
    "is_null": _Translation.is_null,
    "is_valid": _Translation.is_valid,
    "is_nan": _Translation.is_nan,
    "is_in": _Translation.is_in,
    "starts_with": _Translation.starts_with,
    "if_else": _Translation.if_else,
}


def _constant(scalar: pa.Scalar) -> Predicate | None:
    if not scalar.is_valid:
        return Constant(None)
    return Constant(scalar.as_py()) if pt.is_boolean(scalar.type) else None


def _value_set(part: _Part) -> tuple[tuple[str, ...], list[Any], bool] | None:
    """Return the column of an `is_in`, its values, and whether NULL is one of them."""
    if not isinstance(part, _Call) or part.name != "is_in":
        return None
    column, nulls = part.args[0], _plain(part.options.get("null_matching_behavior"))
    if not isinstance(column, _Field) or nulls not in (_MATCH_NULL, _SKIP_NULL):
        return None
    given = [_value(item) for item in part.options["value_set"].values]
    if any(value is NotImplemented for value in given):
        return None
    values = [value for value in given if value is not None]
    return column.path, values, nulls == _MATCH_NULL and len(values) < len(given)


def _plain(scalar: pa.Scalar | None) -> Any:
    return None if scalar is None else scalar.as_py()


def _value(scalar: pa.Scalar) -> Any:
    """Return a literal as a Python value, or NotImplemented if that would change it."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    try:
        if pt.is_timestamp(kind):
            return scalar.cast(pa.timestamp(_MICROS, kind.tz)).as_py()
        if pt.is_dictionary(kind) or pt.is_date64(kind):
            return NotImplemented
        return scalar.as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return NotImplemented
