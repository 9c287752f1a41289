from __future__ import annotations

import pytest

from lazydelta.errors import ColumnNotFoundError, SchemaError
from lazydelta.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lazydelta.schema.mapping import physical_name, physical_path, to_physical

LONG = PrimitiveType("long")


def mapped(name, kind, physical):
    return StructField(name, kind, metadata={"delta.columnMapping.physicalName": physical})


INNER = StructType((mapped("k", LONG, "col-2"),))
SCHEMA = StructType(
    (
        mapped("s", INNER, "col-1"),
        mapped("a", ArrayType(INNER), "col-3"),
        mapped("m", MapType(INNER, INNER), "col-4"),
    )
)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_name_and_id_mode_use_physical_names(mode):
    assert physical_path(SCHEMA, ("s", "k"), mode) == ("col-1", "col-2")
    renamed = to_physical(SCHEMA, mode)
    assert renamed.names == ("col-1", "col-3", "col-4")
    assert renamed.fields[1].type.element.names == ("col-2",)
    assert renamed.fields[2].type.key.names == renamed.fields[2].type.value.names == ("col-2",)


def test_mode_none_ignores_physical_names():
    assert physical_path(SCHEMA, ("s", "k"), "none") == ("s", "k")
    assert to_physical(SCHEMA, "none") is SCHEMA


def test_a_missing_physical_name_is_an_error_that_names_the_field():
    with pytest.raises(SchemaError, match=r"'plain' has no delta\.columnMapping\.physicalName"):
        physical_name(StructField("plain", LONG), "name")


def test_an_unknown_mode_is_refused():
    with pytest.raises(SchemaError, match="mode is 'nmae'"):
        physical_name(SCHEMA.fields[0], "nmae")


def test_a_shared_physical_name_is_refused():
    with pytest.raises(SchemaError, match="share a physical name"):
        to_physical(StructType((mapped("a", LONG, "x"), mapped("b", LONG, "x"))), "name")


def test_an_unknown_path_is_an_error():
    with pytest.raises(ColumnNotFoundError):
        physical_path(SCHEMA, ("s", "nope"), "name")
