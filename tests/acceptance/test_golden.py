"""Golden tables: tables of other engines, with facts from outside this project.

The pack is in `../shared/golden`, or in `LAZYDELTA_GOLDEN`. It is not part of the repository
because its tables have other licences.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.adapter import WAYS
from tests.golden_pack import NEEDS_PACK, PACK, REPOSITORY

ADAPTER = Path(__file__).parent / "adapter.py"
LEAST_PLANS = 170

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]


@pytest.mark.sample(3)
@pytest.mark.parametrize("way", WAYS)
def test_facts_of_the_golden_tables(way):
    command = [
        sys.executable,
        str(PACK / "check.py"),
        *("--tables", str(PACK / "tables")),
        *("--manifest", str(PACK / "manifest.json")),
        *("--adapter", str(ADAPTER)),
        "--no-cdf",
    ]
    environment = os.environ | {
        "ADAPTER_WAY": way,
        "PYTHONPATH": str(REPOSITORY / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    held = re.search(r"\bplan (\d+)/(\d+)", done.stdout)
    assert held is not None, done.stdout
    assert held[1] == held[2]
    assert int(held[1]) >= LEAST_PLANS, "too few tables were planned: is the pack whole?"
    assert re.search(r"\d+ passed, 0 failed", done.stdout), done.stdout
