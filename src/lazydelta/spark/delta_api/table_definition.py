"""`DeltaTable.create(spark)...`: the definition of a table under construction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, Self

from pyspark.sql import types as t

from lazydelta.errors import ArgumentError, TableExistsError, TableNotFoundError
from lazydelta.operations import as_schema, create_table
from lazydelta.spark.delta_api.arguments import as_names, check_type
from lazydelta.spark.delta_api.column_definitions import column_field
from lazydelta.spark.spark_errors import with_spark_errors
from lazydelta.spark.table_names import (
    attach,
    default_location,
    find_name,
    open_access,
    require_names,
    table_exists,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lazydelta.spark.delta_api.column_definitions import IdentityGenerator

__all__ = ["CreationMode", "TableDefinition"]

CreationMode = Literal["create", "createIfNotExists", "replace", "createOrReplace"]


@with_spark_errors
class TableDefinition:
    """Columns, layout and properties of a table to create; `execute()` creates it.

    A table needs a name, a location or both. A name without a location gets one below the location
    of its database. As in Delta's builder, each method changes this object and returns it.
    """

    def __init__(
        self, spark: SparkSession, mode: CreationMode, opened: Callable[[SparkSession, str], Any]
    ) -> None:
        self._spark = spark
        self._mode = mode
        self._opened = opened
        self._name: str | None = None
        self._location: str | None = None
        self._fields: list[dict[str, Any]] = []
        self._options: dict[str, Any] = {"properties": {}}

    def tableName(self, identifier: str) -> Self:  # noqa: N802 - Delta's name
        """Set the name in Spark's catalog."""
        check_type("identifier", identifier, str, "a string")
        self._name = identifier
        return self

    def location(self, location: str) -> Self:
        """Set the path or URL."""
        check_type("location", location, str, "a string")
        self._location = location
        return self

    def comment(self, comment: str) -> Self:
        """Set the description."""
        check_type("comment", comment, str, "a string")
        self._options["description"] = comment
        return self

    def addColumn(  # noqa: N802, PLR0917 - Delta's signature
        self,
        colName: str | dict[str, Any],  # noqa: N803
        dataType: str | t.DataType | None = None,  # noqa: N803
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,  # noqa: N803
        generatedByDefaultAs: IdentityGenerator | None = None,  # noqa: N803
        comment: str | None = None,
    ) -> Self:
        """Add a column: its parts, or one that `DeltaTable.columnBuilder` built."""
        if not isinstance(colName, dict):
            colName = column_field(  # noqa: N806
                self._spark,
                colName,
                dataType,  # type: ignore[arg-type]
                nullable=nullable,
                generated=generatedAlwaysAs,
                identity_by_default=generatedByDefaultAs,
                comment=comment,
            )
        self._fields.append(colName)
        return self

    def addColumns(self, cols: t.StructType | list[t.StructField]) -> Self:  # noqa: N802
        """Add the columns of a schema."""
        if not isinstance(cols, t.StructType | list):
            raise ArgumentError("cols", f"must be a StructType or a list, not {type(cols)}")
        for field in cols:
            check_type("a column of cols", field, t.StructField, "a StructField")
            self._fields.append(field.jsonValue())
        return self

    def add_schema(self, schema: str) -> Self:
        """Add the columns of a Delta schema in JSON."""
        self._fields.extend(json.loads(schema)["fields"])
        return self

    def partitionedBy(self, *cols: Any) -> Self:  # noqa: N802
        """Set the partition columns."""
        self._options["partition_by"] = as_names(cols, "partition column")
        return self

    def clusterBy(self, *cols: Any) -> Self:  # noqa: N802
        """Set the clustering columns."""
        self._options["cluster_by"] = as_names(cols, "clustering column")
        return self

    def property(self, key: str, value: str) -> Self:
        """Set a table property."""
        check_type("key", key, str, "a string")
        check_type("value", value, str, "a string")
        self._options["properties"][key] = value
        return self

    def execute(self) -> Any:
        """Create or replace the table, and return it as a `DeltaTable`.

        Raises:
            TableExistsError: The table exists, and the builder is that of `create`.
            TableNotFoundError: It does not exist, and the builder is that of `replace`.
            ArgumentError: Neither a name nor a location is given.
            UnsupportedOperationError: A name on PySpark before 4.0.
        """
        if self._name is not None:
            require_names()
        url = self._url()
        exists = table_exists(self._spark, url)
        if exists and self._mode == "create":
            raise TableExistsError(self._name or url, "create")
        if not exists and self._mode == "replace":
            reason = "it did not exist; createOrReplace creates it"
            raise TableNotFoundError(self._name or url, reason)
        if not (exists and self._mode == "createIfNotExists"):
            declared = json.dumps({"type": "struct", "fields": self._fields})
            store, config = open_access(self._spark, url)
            schema = as_schema(declared, where=store.root)
            mode: Any = "replace" if exists else "error"
            create_table(store, config, schema, mode=mode, **self._options)
        if self._name is not None:
            attach(self._spark, {self._name: url})
        return self._opened(self._spark, url)

    def _url(self) -> str:
        if self._location is not None:
            return self._location
        if self._name is None:
            raise ArgumentError("tableName", "or location must be given")
        known = find_name(self._spark, self._name)
        return default_location(self._spark, self._name) if known is None else known.url
