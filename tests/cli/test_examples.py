"""The examples run as they are printed, clean up after themselves, and print the documented results."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.support import ROOT, environment

EXAMPLES = ROOT / "examples"


def run_example(name, tmp_path, *args, **more):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        env=environment(TMPDIR=str(tmp_path), **more),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == [], "it left something behind"
    return done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("first_files.py", ["version 122", "checkpoint bytes read: 0"]),
        ("flight_client.py", ["expensive: 20 rows", "before the break 100 rows, after it 300"]),
        ("where.py", ["120 files", "240 files", "6 files", "0 files"]),
        (
            "engines.py",
            [
                "20,000 rows",
                "500 rows   (1 of 20 files read)",
                "'note': None, 'file': '00.parquet'",
            ],
        ),
        (
            "changes.py",
            [
                "version 1: update_postimage  (1, 12.5)",
                "version 2: delete",
                "3 changes of rows, from 2 files; 2 were not opened",
                "are the same",
            ],
        ),
        (
            "writing.py",
            [
                "one day replaced: version 2",
                "day=2026-01-04, ride=400, fare=20.0, tip=2.5",
                "already applied: True",
                "refused, and nothing written",
            ],
        ),
        (
            "changing_rows.py",
            ["would delete 20", "wrote 0 bytes", "updated 10 rows", "980 rows are left"],
        ),
        (
            "merging.py",
            ["key t.id = s.id", "updated 2, deleted 1, inserted 1", "0 rows copied", "11 rows"],
        ),
        (
            "observer.py",
            ["delta_lazy_files_emitted 30005", 'lazydelta_scans{strategy="reverse"} 1'],
        ),
    ],
)
def test_an_example_runs(tmp_path, name, words):
    text = run_example(name, tmp_path)
    for word in words:
        assert word in text


def test_the_demonstration_is_consistent(tmp_path):
    text = run_example("demo.py", tmp_path, DEMO_FILES="20000", DEMO_SPARK="no")
    assert text.count("identical, each exactly once") == 2
    assert "DIFFERENT" not in text
    assert "bytes read of the checkpoint: 0." in text
    assert "20,000 files (" in text
    assert "80 files; 1 of 2 row groups" in text


@pytest.mark.long
def test_the_sample_table_is_the_same_every_time(tmp_path):
    logs = []
    for name in ("one", "two"):
        script = [sys.executable, EXAMPLES / "sample_table.py", tmp_path / name, "--files", "3000"]
        subprocess.run(script, env=environment(), timeout=120, check=True)
        log = tmp_path / name / "_delta_log"
        logs.append({path.name: path.read_bytes() for path in log.iterdir()})
    assert logs[0] == logs[1]
    assert len(logs[0]) == 25


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f"`{path.name}`" not in listed] == []
