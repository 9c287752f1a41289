from __future__ import annotations

from benchmarks import serve


def case(what, value):
    return serve.Case(what=what, must="2 x", most=2.0, run=lambda _: (value, f"{value} s"))


def test_a_run_of_some_cases_replaces_their_rows_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "PAGES", tmp_path)
    monkeypatch.setattr(serve, "_scale", lambda **_: None)
    monkeypatch.setattr(serve, "CASES", [case("HTTP: `limit=1`", 1.0), case("Flight", 3.0)])
    page = tmp_path / "serving.md"
    serve.main([])
    assert "| Flight | ≤ 2 x | 3 | 3.0 s | **no** |" in page.read_text("utf-8")
    monkeypatch.setattr(serve, "CASES", [case("HTTP: `limit=1`", 1.0), case("Flight", 1.5)])
    serve.main(["--only", "Flight"])
    rows = [line for line in page.read_text("utf-8").splitlines() if "≤" in line]
    assert [row.rpartition(" | ")[0] for row in rows] == [
        "| HTTP: `limit=1` | ≤ 2 x | 1 | 1.0 s | yes",
        "| Flight | ≤ 2 x | 1.5 | 1.5 s | yes",
    ]
    assert "Flight" in (tmp_path / "img" / "benchmarks-serve.svg").read_text("utf-8")
