"""The parts of `docs/benchmarks.md` that separate runs write: each run replaces its part only.

Pure: strings in, string out. `python -m benchmarks` writes everything before these parts.
"""

from __future__ import annotations

__all__ = ["kept_parts", "with_part"]

_TITLES = (
    *("Start-up", "Writing", "Changing rows"),
    *("Maintenance: OPTIMIZE", "Maintenance: VACUUM and health", "Object stores", "Spark"),
    "Serving",
)


def _split(page: str) -> tuple[str, dict[str, str]]:
    starts = {title: page.find(f"\n## {title}\n") for title in _TITLES}
    found = sorted((at, title) for title, at in starts.items() if at >= 0)
    bounds = [*(at for at, _ in found), len(page)]
    parts = {title: page[at + 1 : bounds[n + 1]] for n, (at, title) in enumerate(found)}
    return page[: bounds[0]], parts


def with_part(page: str, title: str, part: str) -> str:
    r"""Return a page with one part inserted or replaced, in the order of the titles.

    >>> print(with_part("# Page\n\n## Spark\nold\n", "Writing", "## Writing\nnew\n"))
    # Page
    <BLANKLINE>
    ## Writing
    new
    <BLANKLINE>
    ## Spark
    old
    <BLANKLINE>
    """
    head, parts = _split(page)
    parts[title] = part
    sections = [head, *(parts[name] for name in _TITLES if name in parts)]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def kept_parts(page: str) -> str:
    """Return these parts of a page, to append them to a new first part."""
    _, parts = _split(page)
    return "".join(f"\n{parts[name].strip()}\n" for name in _TITLES if name in parts)
