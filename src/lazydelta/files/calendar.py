"""Files with old dates in the calendar of their time, as Spark can write them: only told of.

Spark notes it in the footer and moves such values when it reads. They are not moved here.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["warn_of_old_calendar"]

_log = logging.getLogger(__name__)

_NOTES = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}


def warn_of_old_calendar(metadata: pq.FileMetaData, table: str) -> None:
    """Warn, once for a table, if a file says that it is in the old calendar."""
    if _NOTES & (metadata.metadata or {}).keys():
        _warn_once(table)


@lru_cache(maxsize=256)
def _warn_once(table: str) -> None:
    _log.warning(
        "%s has files in Spark's legacy calendar: dates before 1582-10-15 and timestamps before "
        "1900 are read as stored, days or minutes off; have Spark rewrite them to mend that",
        table,
    )
