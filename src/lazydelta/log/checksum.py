"""Version checksum files (`.crc`): protocol, metadata and totals of one version.

They are optional: a missing or corrupt checksum is read as None.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ObjectNotFoundError, SchemaError, StoreError
from lazydelta.formats import BadLineError, parse_object
from lazydelta.log import tuning
from lazydelta.protocol import MalformedActionError, TableMetadata, TableProtocol
from lazydelta.schema import parse_schema
from lazydelta.store import call_deadline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.log.file_names import LogFile
    from lazydelta.store import Store

__all__ = ["Checksum", "read_checksum"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """The content of a `.crc` file."""

    version: int
    protocol: TableProtocol
    metadata: TableMetadata
    num_files: int
    table_size_bytes: int
    in_commit_timestamp: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All fields, from which the next version's checksum is derived."""


def read_checksum(store: Store, file: LogFile) -> Checksum | None:
    """Return the checksum, or None if it is missing or invalid."""
    if file.size > tuning.MAX_CHECKSUM_BYTES:
        return None
    try:
        with call_deadline(tuning.OPTIONAL_SECONDS):
            raw = bytes(store.read(file.path))
        return _parse(file.version, parse_object(raw))
    except ObjectNotFoundError:
        return None
    except StoreError as error:  # optional: the commits have the same facts
        logger.warning("ignoring %s: %s", file.path, error)
        return None
    except (BadLineError, MalformedActionError, SchemaError, TypeError) as error:
        logger.warning("ignoring %s: %s", file.path, getattr(error, "reason", error))
        return None


def _parse(version: int, obj: Mapping[str, Any]) -> Checksum:
    if obj.get("numProtocol") != 1 or obj.get("numMetadata") != 1:
        raise MalformedActionError("numProtocol or numMetadata is not 1")
    files, size = obj.get("numFiles"), obj.get("tableSizeBytes")
    if not isinstance(files, int) or not isinstance(size, int) or files < 0 or size < 0:
        raise MalformedActionError("numFiles or tableSizeBytes is not a count")
    if not all(isinstance(obj.get(name), dict) for name in ("protocol", "metadata")):
        raise MalformedActionError("it has no protocol or no metadata")
    metadata = TableMetadata.from_json(obj["metadata"])
    parse_schema(metadata.schema_string, where="the checksum")
    timestamp = obj.get("inCommitTimestampOpt")
    return Checksum(
        version=version,
        protocol=TableProtocol.from_json(obj["protocol"]),
        metadata=metadata,
        num_files=files,
        table_size_bytes=size,
        in_commit_timestamp=timestamp if isinstance(timestamp, int) else None,
        raw=obj,
    )
