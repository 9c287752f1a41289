"""Change data feeds of the golden tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden_pack import NEEDS_PACK, PACK, REPOSITORY

ADAPTER = Path(__file__).parent / "adapter_changes.py"
LEAST_FEEDS = 26

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]


def test_change_feeds_of_the_golden_tables():
    command = [
        sys.executable,
        str(PACK / "check.py"),
        *("--tables", str(PACK / "tables")),
        *("--manifest", str(PACK / "manifest.json")),
        *("--adapter", str(ADAPTER)),
        *("--feature", "cdf-facts"),
    ]
    environment = os.environ | {
        "PYTHONPATH": str(REPOSITORY / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    held = re.search(r"\bcdf (\d+)/(\d+)", done.stdout)
    assert held is not None, done.stdout
    assert held[1] == held[2]
    assert int(held[1]) >= LEAST_FEEDS, "too few feeds were read: is the pack whole?"
