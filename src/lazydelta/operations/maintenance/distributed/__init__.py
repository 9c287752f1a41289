"""What an engine needs to run VACUUM and RESTORE in several processes."""

from __future__ import annotations

from lazydelta.operations.maintenance.distributed.vacuum_parts import OTHER_LOG, VacuumParts
from lazydelta.operations.maintenance.file_deletion import Deletion
from lazydelta.operations.maintenance.file_presence import FilePresence
from lazydelta.operations.maintenance.file_rules import PartitionScope
from lazydelta.operations.maintenance.object_listing import (
    INVENTORY,
    check_inventory,
    foreign_inventory,
    listing_ranges,
)
from lazydelta.operations.maintenance.restore import FileDifference, LocalRestore
from lazydelta.operations.maintenance.retained_files import (
    RetainedVersions,
    paths_added_since,
)
from lazydelta.operations.maintenance.vacuum import (
    incomplete_log,
    next_version,
    skipped_tables,
)

__all__ = [
    "INVENTORY",
    "OTHER_LOG",
    "Deletion",
    "FileDifference",
    "FilePresence",
    "LocalRestore",
    "PartitionScope",
    "RetainedVersions",
    "VacuumParts",
    "check_inventory",
    "foreign_inventory",
    "incomplete_log",
    "listing_ranges",
    "next_version",
    "paths_added_since",
    "skipped_tables",
]
