"""The pages of `docs/benchmarks/`: each run writes its own."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PAGES", "write_page"]

PAGES = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"


def write_page(directory: Path, name: str, page: str) -> None:
    """Write the page of a run; its plots are in `img/` of the same directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.md").write_text(page.strip("\n") + "\n", "utf-8")
