"""Which order to scan in. Pure; it changes when a file comes, never which files come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazydelta.config import Strategy

__all__ = ["Choice", "choose_strategy"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and why."""

    strategy: Strategy
    reason: str


def choose_strategy(
    asked: Strategy,
    *,
    limit: int | None,
    tail_files: int,
    tail_commits: int,
    checkpoint_files: int | None,
    forward_tail_commits: int,
) -> Choice:
    """Return the order to scan in, from what the listing and the hint told already.

    Args:
        asked: The caller's wish; anything but `auto` is granted.
        limit: The maximum number of files, or of rows; None for all.
        tail_files: About how many files the commits after the checkpoint add.
        tail_commits: How many commits, or compactions of them, that are.
        checkpoint_files: Files in the checkpoint; None if unknown, 0 without a checkpoint.
        forward_tail_commits: Longest tail for which reading it newest first is thought quick.
    """
    if asked != "auto":
        return Choice(asked, "asked for")
    if limit is not None:
        return Choice("reverse", "a limit is set, and the newest files are at hand first")
    if checkpoint_files == 0:
        return Choice("reverse", "there is no checkpoint: the commits are all there is")
    if tail_commits > forward_tail_commits:
        return Choice("forward", f"a full scan over a tail of {tail_commits} commits")
    if checkpoint_files is not None and tail_files > checkpoint_files / 2:
        return Choice("reverse", f"the tail (about {tail_files} files) outweighs the checkpoint")
    return Choice("forward", "a full scan: most files are in the checkpoint")
