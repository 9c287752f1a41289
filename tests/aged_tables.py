"""Tables with a past: commits, files and tombstones get the ages that a test needs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lazydelta.formats import DeletionVectorGroup

if TYPE_CHECKING:
    import lazydelta as ld

HOUR_MS = 3_600_000


def backdate(table: ld.Table, hours: float = 1.0) -> None:
    """Age the commits of a local table: the newest by half of `hours`, each older one by more.

    Every file gets the time of the commit that added it, and tombstones that of their commit.
    """
    log = Path(table.url) / "_delta_log"
    commits = sorted(path for path in log.glob("*.json") if len(path.stem) == 20)
    now = time.time_ns() // 10**6
    for age, commit in enumerate(reversed(commits)):
        at_ms = int(now - (age + 0.5) * hours * HOUR_MS)
        lines = []
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                action["remove"]["deletionTimestamp"] = at_ms
            for kind in ("add", "cdc"):
                if kind in action:
                    _touch(Path(table.url), action[kind], at_ms)
            lines.append(json.dumps(action))
        commit.write_text("\n".join(lines) + "\n")
        set_time(commit, at_ms)


def _touch(root: Path, action: dict, at_ms: int) -> None:
    vector = action.get("deletionVector")
    path = unquote(action["path"])
    if vector and vector["storageType"] == "u":
        path = DeletionVectorGroup.file_name(vector["pathOrInlineDv"])
    if (root / path).exists():  # not vacuumed yet
        set_time(root / path, at_ms)


def set_time(path: Path, at_ms: int) -> None:
    os.utime(path, ns=(at_ms * 10**6, at_ms * 10**6))


def age(path: Path, hours: float) -> Path:
    """Set the modification time of a file so many hours back."""
    set_time(path, int(time.time() * 1000 - hours * HOUR_MS))
    return path


def files_of(table: ld.Table) -> set[str]:
    """Return the paths of all files outside the log."""
    root = Path(table.url)
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] != "_delta_log"
    }
