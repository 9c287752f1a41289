"""Merge a batch of changes into a table: update, delete and insert in one commit."""

from __future__ import annotations

import tempfile

import lazydelta as ld


def main() -> None:
    """Upsert rows, and show what was read and written."""
    with tempfile.TemporaryDirectory() as directory:
        riders = {
            "id": list(range(11)),
            "name": [f"rider {n}" for n in range(11)],
            "rides": [0] * 11,
        }
        ld.write(directory, riders, properties={"delta.enableDeletionVectors": "true"})
        table = ld.Table.open(directory)

        changes = {
            "id": [3, 5, 7, 40],
            "name": ["Ada", "Bo", None, "Cy"],
            "rides": [2, 1, 0, 4],
            "gone": [False, False, True, False],
        }
        merge = (
            table.merge(changes, "t.id = s.id")
            .when_matched_delete("s.gone")
            .when_matched_update({"name": "s.name", "rides": "t.rides + s.rides"})
            .when_not_matched_insert("*")
        )
        plan = merge.explain()
        print("key", *plan.key, "- reads", *plan.match_columns, "of", plan.files, "file")
        metrics = merge.execute().metrics
        updated, deleted, inserted, copied = (
            metrics[f"numTargetRows{name}"] for name in ("Updated", "Deleted", "Inserted", "Copied")
        )
        print(f"updated {updated}, deleted {deleted}, inserted {inserted}; {copied} rows copied")
        print(table.count(), "rows:", table.scan(where="id IN (3, 40)").to_arrow().to_pylist())


if __name__ == "__main__":
    main()
