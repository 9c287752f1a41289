"""Write a table: create, append, replace a part, add a column; an idempotent write."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path

import lazydelta as ld


def rides(day: int, *fares: float) -> dict[str, list[object]]:
    """Return the rides of a day in January, as columns."""
    return {
        "day": [date(2026, 1, day)] * len(fares),
        "ride": [day * 100 + number for number in range(len(fares))],
        "fare": list(fares),
    }


def show(what: str, table: ld.Table) -> None:
    """Print the rows of the table."""
    rows = table.to_arrow().sort_by("ride").to_pylist()
    print(f"{what}: version {table.version}")
    for row in rows:
        print("   ", ", ".join(f"{name}={value}" for name, value in row.items()))


def main(folder: Path) -> None:
    """Run the example."""
    table = ld.Table.open(folder / "rides")
    table.write(rides(1, 12.5, 8.0), partition_by="day")
    table.write(rides(day, 10.0 + day) for day in (2, 3))  # a stream of batches
    show("created with its first rows, then appended to", table)

    table.write(rides(1, 99.0), "overwrite", where="day = '2026-01-01'")
    show("one day replaced", table)

    tipped = {**rides(4, 20.0), "tip": [2.5]}
    table.write(tipped, schema_mode="merge")
    show("a new column", table)

    for _ in range(2):
        result = table.write(rides(5, 7.0), app_id="nightly", app_version=5)
        print(f"step 5 of nightly: already applied: {result.already_applied}")

    try:
        table.write({"day": ["not a day"], "ride": [1], "fare": [1.0]})
    except ld.errors.SchemaMismatchError as error:
        print(f"refused, and nothing written:\n    {error}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
