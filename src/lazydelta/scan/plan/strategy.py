"""Scan strategy: the order in which the log is read. It never changes which files are returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lazydelta.config import Strategy

__all__ = ["Choice", "choose_strategy"]


class Choice(NamedTuple):
    """A strategy and the reason for it."""

    strategy: Strategy
    reason: str


def choose_strategy(
    requested: Strategy,
    *,
    limit: int | None,
    tail_files: int,
    tail_commits: int,
    checkpoint_files: int | None,
    forward_tail_commits: int,
) -> Choice:
    """Choose the scan order from the log listing and the checkpoint hint.

    Args:
        requested: The caller's choice; anything but `auto` is used as is.
        limit: The maximum number of files or rows; None for all.
        tail_files: Estimated number of files that the commits after the checkpoint add.
        tail_commits: Number of these commits; a log compaction counts as one.
        checkpoint_files: Files in the checkpoint; None if unknown, 0 without a checkpoint.
        forward_tail_commits: A full scan of a longer tail is always forward.
    """
    if requested != "auto":
        return Choice(requested, "requested")
    if limit is not None:
        return Choice("reverse", "a limit is set, and the tail returns files first")
    if checkpoint_files == 0:
        return Choice("reverse", "there is no checkpoint")
    if tail_commits > forward_tail_commits:
        return Choice("forward", f"a full scan with a tail of {tail_commits} commits")
    if checkpoint_files is not None and tail_files > checkpoint_files / 2:
        return Choice(
            "reverse", f"the tail (about {tail_files} files) is more than half of the checkpoint"
        )
    return Choice("forward", "a full scan: most files are in the checkpoint")
