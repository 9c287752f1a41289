"""Columns of a table to create, as Delta's builders define them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import types as t

from lazydelta.errors import ArgumentError, UnsupportedOperationError
from lazydelta.spark.delta_api.arguments import check_type
from lazydelta.spark.spark_errors import with_spark_errors
from lazydelta.writer.enforcement import GENERATION_EXPRESSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DeltaColumnBuilder", "IdentityGenerator", "column_field"]

_IDENTITY = "delta.identity."


@dataclass
class IdentityGenerator:
    """Values of an identity column: `start`, `start + step`, ..."""

    start: int = 1
    step: int = 1


def column_field(
    spark: SparkSession,
    name: str,
    data_type: str | t.DataType,
    *,
    nullable: bool = True,
    generated: str | IdentityGenerator | None = None,
    identity_by_default: IdentityGenerator | None = None,
    comment: str | None = None,
) -> dict[str, Any]:
    """Return a column as a field of a schema in JSON.

    Raises:
        ArgumentError: An argument has another type, or two exclude each other.
        ParseException: Spark cannot parse the type.
    """
    check_type("column name", name, str, "a string")
    check_type("nullable", nullable, bool, "a boolean")
    kind = _parsed(spark, data_type)
    metadata: dict[str, Any] = {}
    if comment is not None:
        check_type("comment", comment, str, "a string")
        metadata["comment"] = comment
    if generated is not None and identity_by_default is not None:
        raise ArgumentError("generatedByDefaultAs", "excludes generatedAlwaysAs: give one of them")
    if isinstance(generated, str):
        metadata[GENERATION_EXPRESSION] = generated
    elif generated is not None:
        metadata |= _identity(kind, generated, "generatedAlwaysAs", explicit=False)
    if identity_by_default is not None:
        metadata |= _identity(kind, identity_by_default, "generatedByDefaultAs", explicit=True)
    return {"name": name, "type": kind.jsonValue(), "nullable": nullable, "metadata": metadata}


def _parsed(spark: SparkSession, data_type: object) -> t.DataType:
    if isinstance(data_type, t.DataType):
        return data_type
    check_type("column data type", data_type, str, "a string or a DataType")
    return spark.createDataFrame([], f"value {data_type}").schema["value"].dataType


def _identity(kind: t.DataType, generator: object, name: str, *, explicit: bool) -> dict[str, Any]:
    check_type(name, generator, IdentityGenerator, "an IdentityGenerator")
    assert isinstance(generator, IdentityGenerator)  # noqa: S101 - for type checkers
    if generator.step == 0:
        raise ArgumentError(name, "needs a step that is not 0")
    if not isinstance(kind, t.LongType):
        of = f"{name} for a column of the type {kind.simpleString()}"
        raise UnsupportedOperationError(of, "identity columns have the type bigint")
    return {
        f"{_IDENTITY}start": generator.start,
        f"{_IDENTITY}step": generator.step,
        f"{_IDENTITY}allowExplicitInsert": explicit,
    }


@with_spark_errors
class DeltaColumnBuilder:
    """A column under construction: `DeltaTable.columnBuilder("id").dataType("bigint").build()`."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self._type: str | t.DataType | None = None
        self._given: dict[str, Any] = {}

    def dataType(self, dataType: str | t.DataType) -> Self:  # noqa: N802, N803 - Delta's names
        """Set the type."""
        self._type = dataType
        return self

    def nullable(self, nullable: bool) -> Self:
        """Set whether the column may be null."""
        self._given["nullable"] = nullable
        return self

    def generatedAlwaysAs(self, expr: str | IdentityGenerator) -> Self:  # noqa: N802
        """Make it a generated column, or an identity column."""
        self._given["generated"] = expr
        return self

    def generatedByDefaultAs(self, expr: IdentityGenerator) -> Self:  # noqa: N802
        """Make it an identity column whose values may be given."""
        self._given["identity_by_default"] = expr
        return self

    def comment(self, comment: str) -> Self:
        """Set the comment."""
        self._given["comment"] = comment
        return self

    def build(self) -> dict[str, Any]:
        """Return the column, for `addColumn`."""
        if self._type is None:
            raise ArgumentError("dataType", "is missing")
        return column_field(self._spark, self._name, self._type, **self._given)
