"""Location of the golden tables: `LAZYDELTA_GOLDEN`, or beside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
# Read at import: the fixtures hide `LAZYDELTA_*` from the tests themselves.
PACK = Path(os.environ.get("LAZYDELTA_GOLDEN") or REPOSITORY.parent / "shared" / "golden")
NEEDS_PACK = pytest.mark.skipif(
    not (PACK / "manifest.json").is_file(),
    reason=f"the golden pack is not at {PACK}: set LAZYDELTA_GOLDEN to where it is",
)


def golden_tables():
    """Return the manifest entries of the pack; empty without it."""
    manifest = PACK / "manifest.json"
    return json.loads(manifest.read_text())["tables"] if manifest.is_file() else []
