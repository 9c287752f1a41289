"""The options of `df.write` and `df.writeStream` in the format `lazydelta`, as a write.

The names are those that users of Delta on Spark know, where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lazydelta.config import Config, WriteOptions
from lazydelta.errors import ConfigError
from lazydelta.operations import WriteRequest
from lazydelta.spark.option_texts import (
    OptionReader,
    boolean,
    column_names,
    given_options,
    object_of_texts,
    size,
    whole_number,
)
from lazydelta.spark.shipped import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.writer import SchemaMode

__all__ = ["SinkOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What was asked of the sink. The names of the options are those of the fields in camelCase."""

    path: str
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of a new table. A JSON object, because Spark changes the case of names of options."""
    txn_app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    target_file_size: int | None = None
    compression: str | None = None
    storage_options_file: str | None = None
    checkpoint_location: str | None = None
    """Spark's own, of a stream; it hands all options over."""

    @classmethod
    def parse(cls, options: Mapping[str, str], options_file: str | None) -> SinkOptions:
        """Read the texts.

        Args:
            options: As Spark hands them over.
            options_file: Where storage options are, unless an option says otherwise.

        Raises:
            ConfigError: A name is not known, or a text is not what the option takes.
        """
        found = cls(**given_options(cls, options, _READERS, call="save()"))
        if found.storage_options_file is None:
            return replace(found, storage_options_file=options_file)
        return found

    def refuse_batch_options(self) -> None:
        """Refuse what a stream does not understand."""
        if self.txn_version is not None:
            raise ConfigError("txnVersion", "of a stream is the number of its batch")
        if self.replace_where is not None:
            raise ConfigError("replaceWhere", "does not belong to a stream")

    def address(self) -> Address:
        """Return where the table is."""
        return Address(
            root=self.path, config=Config.from_env(), options_file=self.storage_options_file
        )

    def request(self, *, overwrite: bool) -> WriteRequest:
        """Return the write that is asked for.

        Raises:
            ConfigError: Options contradict each other, or the mode.
        """
        if self.merge_schema and self.overwrite_schema:
            raise ConfigError("overwriteSchema", "give it or mergeSchema, not both")
        schema_mode: SchemaMode = "merge" if self.merge_schema else None
        metadata = {} if self.user_metadata is None else {"userMetadata": self.user_metadata}
        return WriteRequest(
            mode="overwrite" if overwrite else "append",
            partition_by=self.partition_by,
            schema_mode="overwrite" if self.overwrite_schema else schema_mode,
            predicate=self.replace_where,
            properties=self.properties,
            app_id=self.txn_app_id,
            app_version=self.txn_version,
            commit_metadata=metadata,
            options=WriteOptions(
                target_file_bytes=self.target_file_size, codec=self.compression, files_at_once=1
            ),
        )


_READERS: dict[str, OptionReader] = {
    **dict.fromkeys(("merge_schema", "overwrite_schema"), boolean),
    "partition_by": column_names,
    "properties": object_of_texts,
    "txn_version": whole_number(0),
    "target_file_size": size,
}
