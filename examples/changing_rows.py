"""Delete and update rows of a table with deletion vectors."""

from __future__ import annotations

import tempfile

import lazydelta as ld


def main() -> None:
    """Change some rows, and show which files changed."""
    with tempfile.TemporaryDirectory() as directory:
        rides = {"id": list(range(1000)), "fare": [float(n % 50) for n in range(1000)]}
        ld.write(directory, rides, properties={"delta.enableDeletionVectors": "true"})
        table = ld.Table.open(directory)

        print("would delete", table.delete("fare = 0", dry_run=True).metrics["numDeletedRows"])
        deleted = table.delete("fare = 0")
        print("deleted", deleted.metrics["numDeletedRows"], "rows, wrote", deleted.bytes, "bytes")
        updated = table.update({"fare": "fare * 1.1"}, "id >= 990")
        print("updated", updated.metrics["numUpdatedRows"], "rows, now version", updated.version)
        print(table.count(), "rows are left")


if __name__ == "__main__":
    main()
