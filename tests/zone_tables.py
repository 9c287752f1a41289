"""Tables with V2 checkpoints in small sidecars, and a way to change their zone maps."""

from __future__ import annotations

import orjson
import pytest

from lazydelta import Config, Table
from lazydelta.checkpoint import tuning, write_checkpoint
from lazydelta.snapshot import load_snapshot

V2 = {"delta.checkpointPolicy": "v2"}
TAG = "lazydelta.zones"
NOW = 1_700_000_000_001
"""Just after every action of a built table, so that no tombstone has expired."""


def write_sidecars(store, adds, *, in_a_row_group=None):
    """Write a checkpoint of the newest version with `adds` adds in each sidecar."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "ROW_GROUP_ROWS", in_a_row_group or adds)
        patch.setattr(tuning, "SIDECAR_ROWS", adds)
        return write_checkpoint(load_snapshot(store, Config()), now_ms=NOW)


def manifest_of(store):
    """Return the path and the actions of the latest checkpoint manifest."""
    (file,) = Table(store, Config()).snapshot().segment.checkpoint.files
    return file.path, [orjson.loads(line) for line in bytes(store.read(file.path)).splitlines()]


def zones_of(store):
    """Return the zone map of each sidecar, in order."""
    sidecars = [action["sidecar"] for action in manifest_of(store)[1] if "sidecar" in action]
    return [orjson.loads(sidecar["tags"][TAG]) for sidecar in sidecars]


def retag(store, change):
    """Replace the tags of each sidecar by `change(zone_map)`."""
    path, actions = manifest_of(store)
    for action in actions:
        if "sidecar" in action:
            sidecar = action["sidecar"]
            sidecar["tags"] = change(orjson.loads(sidecar["tags"][TAG]))
    store.write(path, b"".join(orjson.dumps(a) + b"\n" for a in actions), overwrite=True)


def without_tags(_):
    """For `retag`: no tags, like the sidecars of other writers."""
    return {}
