"""Measuring start-up: every case runs, and the page is written."""

from __future__ import annotations

import pytest

from benchmarks import startup

CASES = [*startup.IMPORTS, *startup.COMMANDS]


@pytest.mark.long
def test_one_round_measures_every_case_and_writes_the_page(tmp_path, capsys):
    pytest.importorskip("deltalake")
    assert startup.main(["--rounds", "1", "--docs", str(tmp_path)]) == 0
    section = capsys.readouterr().out
    assert all(f"| `{name}` |" in section for name in CASES)
    assert (tmp_path / "start-up.md").read_text() == section.strip("\n") + "\n"


def test_limits_compare_best_with_best_and_median_with_median():
    samples = {name: [1.0, 2.0, 4.0] for name in CASES}
    samples["import lazydelta"] = [1.5, 6.0, 7.0]
    samples["lazydelta count"] = [2.1, 2.1, 2.1]
    verdicts = startup.startup_verdicts(samples)
    assert [(v.ratio, v.median_ratio, v.word) for v in verdicts] == [
        (1.5, 3.0, "yes"),
        (1.0, 1.0, "yes"),
        (2.1, 1.05, "**no**"),
        (1.0, 1.0, "yes"),
    ]
