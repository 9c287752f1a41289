"""Who replays the log: this process where the table is small, executors where it is large.

Starting tasks costs more than replaying a small log, so below a threshold the planner of this
process is used. How many files there are is estimated from what the log states of itself; no
file is listed to find out.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.scan.plan import COMMIT_VERSION, Explanation, live_adds
from lazydelta.snapshot import BYTES_PER_ADD, skip_damaged_checkpoint
from lazydelta.spark.conf import replay_settings
from lazydelta.spark.log_schema import spark_schema
from lazydelta.spark.replay import columns_of, distributed_log_replay, fields_to_read, pruner_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.scan import Where
    from lazydelta.snapshot import Snapshot
    from lazydelta.spark.conf import ReplaySettings

__all__ = ["ReplayChoice", "choose_replay", "explain_replay", "live_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChoice:
    """Who replays the log, and why."""

    distributed: bool
    reason: str
    estimated_files: int


def live_files(
    spark: SparkSession,
    snapshot: Snapshot,
    *,
    where: Where = None,
    fields: Sequence[str] | None = None,
) -> DataFrame:
    """Return the live files of a snapshot as `distributed_log_replay` does, whoever finds them.

    The session's `spark.lazydelta.distributedLogReplay.*` settings decide; `explain_replay`
    tells how. Found in this process, the files come without typed statistics.
    """
    settings = replay_settings(spark)
    if choose_replay(snapshot, settings).distributed:
        return distributed_log_replay(
            spark, snapshot, settings.num_partitions, where=where, fields=fields
        )
    schema = fields_to_read(snapshot, fields)
    batches = live_adds(snapshot, schema, pruner_of(snapshot, where))
    found = pa.Table.from_batches(batches, pa.schema([*schema, COMMIT_VERSION]))
    shape = spark_schema(found.schema)
    frame = spark.createDataFrame(found, shape) if len(found) else spark.createDataFrame([], shape)
    return frame.select(columns_of(schema, fields))


def explain_replay(spark: SparkSession, snapshot: Snapshot) -> Explanation:
    """Return who would replay the snapshot's log in this session, and why."""
    settings = replay_settings(spark)
    choice = choose_replay(snapshot, settings)
    segment = snapshot.segment
    return Explanation(
        table=snapshot.store.root,
        version=snapshot.version,
        replay={
            "by": "executors" if choice.distributed else "this process",
            "reason": choice.reason,
            "estimated_files": choice.estimated_files,
            "file_threshold": settings.file_threshold,
            "most_tasks": settings.num_partitions,
        },
        log={
            "checkpoint": segment.checkpoint and segment.checkpoint.name,
            "tail_commits": len(segment.commits),
            "tail_bytes": sum(file.size for file in segment.tail),
        },
    )


def choose_replay(snapshot: Snapshot, settings: ReplaySettings) -> ReplayChoice:
    """Decide from the settings and from what the log says of its size."""
    stated = snapshot.estimated_files()
    files = skip_damaged_checkpoint(snapshot, _by_footer) if stated is None else stated
    source = "by a footer of the checkpoint" if stated is None else "as the log states"
    about = f"about {files:,} files, {source}"
    if not settings.enabled:
        return ReplayChoice(
            distributed=False, reason="switched off by the session", estimated_files=files
        )
    distributed = files >= settings.file_threshold
    side = "not below" if distributed else "below"
    return ReplayChoice(
        distributed=distributed,
        reason=f"{about}: {side} the threshold of {settings.file_threshold:,}",
        estimated_files=files,
    )


def _by_footer(snapshot: Snapshot) -> int:
    """Estimate from the rows and bytes of one file of the checkpoint and the bytes of all."""
    segment = snapshot.segment
    tail = sum(file.size for file in segment.tail) // BYTES_PER_ADD
    if segment.checkpoint is None:
        return tail
    checkpoint = snapshot.open_checkpoint(segment.checkpoint)
    inline = checkpoint.inline_actions
    files = tail + (0 if inline is None else inline.size // BYTES_PER_ADD)
    leaves = checkpoint.leaves()
    for leaf in leaves:
        with closing(checkpoint.open(leaf)) as reader:
            if reader.has_adds() and reader.metadata.num_rows:
                rows = reader.metadata.num_rows
                ratio = rows / (leaf.size or 1)
                sized = [other.size for other in leaves if other.size is not None]
                return files + max(rows, int(ratio * sum(sized))) if leaf.size else files + rows
    return files
