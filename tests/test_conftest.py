"""Tests of the fixtures in conftest.py, in a separate test session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parent / "conftest.py"


def outcome(tmp_path, test_text, **environment):
    source = CONFTEST.read_text(encoding="utf-8")
    quick, replaced = re.subn(r"(_LEAK_GRACE_SECONDS) = .*", r"\1 = 0.3", source)
    assert replaced == 1
    (tmp_path / "conftest.py").write_text(quick, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(test_text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_leaked_thread_is_an_error(tmp_path):
    source = """
import threading
def test_leak():
    threading.Thread(target=threading.Event().wait, name="lazydelta-io_0", daemon=True).start()
"""
    printed = outcome(tmp_path, source)
    assert "threads still running after the test: ['lazydelta-io_0']" in printed
    assert "1 passed, 1 error" in printed


def test_a_thread_of_a_dropped_iterator_is_no_error(tmp_path):
    source = """
import threading
def test_dropped_iterator():
    stop = threading.Event()
    def batches():
        thread = threading.Thread(target=stop.wait, name="lazydelta-prefetch")
        thread.start()
        try:
            yield 1
        finally:
            stop.set()
            thread.join()
    next(batches())
"""
    assert "1 passed" in outcome(tmp_path, source)


def test_the_environment_of_the_caller_does_not_reach_a_test(tmp_path):
    source = """
import os
import pytest
@pytest.fixture(scope="session")
def process():
    return dict(os.environ)
def test_environment(process):
    for known in (os.environ, process):
        assert not [n for n in known if n.startswith(("LAZYDELTA_", "AZURE_", "AWS_ACCESS"))]
        assert known["AWS_EC2_METADATA_DISABLED"] == "true"
"""
    foreign = {"LAZYDELTA_BATCH_ROWS": "1", "AZURE_STORAGE_KEY": "x", "AWS_ACCESS_KEY_ID": "x"}
    assert "1 passed" in outcome(tmp_path, source, **foreign)


def test_random_examples_are_the_same_in_ci(tmp_path):
    source = """
from hypothesis import settings
def test_profile():
    assert settings.get_current_profile_name() == "ci"
    assert settings().derandomize
    assert settings().deadline is None
"""
    assert "1 passed" in outcome(tmp_path, source, CI="true", HYPOTHESIS_PROFILE="")


def test_one_in_n_cases_of_a_sampled_test_runs_by_default(tmp_path):
    source = """
import pytest
@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(7))
def test_number(number):
    print(f"case {number} ran")
"""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -s -m 'not long'\nmarkers =\n  long\n  sample(n)\n"
    )
    printed = outcome(tmp_path, source)
    assert [int(found) for found in re.findall(r"case (\d) ran", printed)] == [0, 3, 6]
    assert "3 passed, 4 deselected" in printed
