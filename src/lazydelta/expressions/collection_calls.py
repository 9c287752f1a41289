"""Bind calls on arrays, maps and structs: constructors, subscripts, fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from lazydelta.errors import PredicateError
from lazydelta.expressions.coercion import (
    BOOLEAN,
    INTEGER,
    STRING,
    VOID,
    common_type,
    is_flat,
    is_string,
    loose,
    type_of,
)
from lazydelta.expressions.implicit_casts import cast_to, common
from lazydelta.expressions.nodes.value_nodes import Call, Column, Literal
from lazydelta.schema import ArrayType, MapType, StructField, StructType
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType

__all__ = ["bind_collection", "bind_subscript"]


def bind_subscript(node: Call, name: str, args: tuple[Value, ...], *, strict: bool) -> Value:
    """Bind `value[index]` and `value.field`.

    Raises:
        PredicateError: The value has no such part.
    """
    if strict:
        _refuse(node, "subscripts are not supported in table metadata")
    value, index = args
    kind = type_of(value)
    if isinstance(kind, StructType) and isinstance(index, Literal) and is_string(index.type):
        return _field(node, value, kind, str(index.value))
    if isinstance(kind, MapType):
        return Call("[]", (value, _key(node, kind, index)), loose(kind.value))
    if name == "." or not isinstance(kind, ArrayType):
        _refuse(node, f"a {kind} has no such part")
    return Call("[]", (value, _index(node, index)), loose(kind.element))


def _field(node: Call, value: Value, kind: StructType, name: str) -> Value:
    field = kind.get(name)
    if field is None:
        _refuse(node, f"there is no field {name!r}; fields: {', '.join(kind.names)}")
    if isinstance(value, Column):
        return Column((*value.path, field.name), loose(field.type))
    return Call(".", (value, Literal(field.name, STRING)), loose(field.type))


def bind_collection(  # noqa: PLR0911 - one per function
    node: Call, name: str, args: tuple[Value, ...]
) -> Value:
    """Bind a function that builds a nested value, or returns an element of one.

    Raises:
        PredicateError: The arguments do not fit.
    """
    match name:
        case "array" if args:
            values = common(args, str(node), strict=False, is_choice=True)
            return Call(name, values, ArrayType(_known(node, type_of(values[0]))))
        case "map" if args and len(args) % 2 == 0:
            return _map(node, args)
        case "named_struct" if args and len(args) % 2 == 0:
            return _struct(node, args)
        case "struct" if args:
            names = [_name(arg, index) for index, arg in enumerate(args)]
            return _struct(node, tuple(v for pair in zip(names, args, strict=True) for v in pair))
        case "array_contains" if len(args) == 2 and isinstance(type_of(args[0]), ArrayType):
            return Call(name, (args[0], _element(node, *args)), BOOLEAN)
        case "get" if len(args) == 2 and isinstance(type_of(args[0]), ArrayType):
            return _element_at(node, name, *args)
        case "element_at" | "try_element_at" if len(args) == 2:
            return _element_at(node, name, *args)
    return _refuse(node, f"{name} does not take these arguments")


def _element_at(node: Call, name: str, value: Value, index: Value) -> Value:
    kind = type_of(value)
    if isinstance(kind, MapType):
        return Call(name, (value, _key(node, kind, index)), loose(kind.value))
    if not isinstance(kind, ArrayType):
        return _refuse(node, f"a {kind} has no elements")
    return Call(name, (value, _index(node, index)), loose(kind.element))


def _map(node: Call, args: tuple[Value, ...]) -> Value:
    keys, values = (
        common(part, str(node), strict=False, is_choice=True) for part in (args[::2], args[1::2])
    )
    key, value = (_known(node, type_of(part[0])) for part in (keys, values))
    if not is_flat(key):
        _refuse(node, f"a {key} cannot be the key of a map")
    pairs = tuple(part for pair in zip(keys, values, strict=True) for part in pair)
    return Call("map", pairs, MapType(key, value))


def _struct(node: Call, args: tuple[Value, ...]) -> Value:
    fields = []
    for name, value in zip(args[::2], args[1::2], strict=True):
        if not (isinstance(name, Literal) and isinstance(name.value, str)):
            _refuse(node, "the names of fields are constant strings")
        fields.append(StructField(name.value, _known(node, type_of(value))))
    if len({field.name.lower() for field in fields}) < len(fields):
        _refuse(node, "two fields have the same name")
    return Call("named_struct", args, StructType(tuple(fields)))


def _name(arg: Value, index: int) -> Literal:
    """Return the name of a field of `struct`: that of a column, or its position."""
    return Literal(arg.path[-1] if isinstance(arg, Column) else f"col{index + 1}", STRING)


def _key(node: Call, kind: MapType, key: Value) -> Value:
    found = cast_to(key, kind.key, strict=False) if _fits(kind.key, key) else None
    return _refuse(node, f"a {type_of(key)} is not a key of {kind}") if found is None else found


def _element(node: Call, array: Value, element: Value) -> Value:
    kind = type_of(array)
    inner = kind.element if isinstance(kind, ArrayType) else kind
    known = is_flat(inner) and type_of(element) != VOID and _fits(inner, element)
    found = cast_to(element, inner, strict=False) if known else None
    reason = f"a {type_of(element)} is not an element of {kind} without an explicit CAST"
    return _refuse(node, reason) if found is None else found


def _fits(kind: DataType, value: Value) -> bool:
    """Whether a value compares with values of a type without changing their type."""
    return type_of(value) == VOID or common_type(Column((), kind), value, strict=False) == kind


def _index(node: Call, index: Value) -> Value:
    if str(type_of(index)) not in INTEGER_RANGES:
        _refuse(node, f"a {type_of(index)} is not the index of an array")
    found = cast_to(index, INTEGER, strict=False)
    return _refuse(node, "an index is an integer") if found is None else found


def _known(node: Call, kind: DataType) -> DataType:
    if kind == VOID:
        _refuse(node, "NULL needs a CAST to a type here")
    return loose(kind)


def _refuse(node: object, reason: str) -> NoReturn:
    raise PredicateError(str(node), reason)
