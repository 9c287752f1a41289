"""Log replay in Spark executors: the files of a table, and of one partition, as a DataFrame.

python examples/spark_plan.py [TABLE]
"""

from __future__ import annotations

import sys
import time
import warnings

from sample_table import table_to_show

import lazydelta as ld

ONE_DAY = "day = '2026-05-01'"


def main(address: str) -> int:
    """Plan on Spark and in this process; return 0 if both found the same files."""
    try:
        from lazydelta import spark as ld_spark

        started = time.perf_counter()
        session = ld_spark.local_session(name="lazydelta example")
    except (ld.errors.MissingExtraError, ld.errors.JavaNotFoundError) as error:
        print(f"   Skipped: {error}")
        return 0
    print(f"   Spark {session.version} started in {time.perf_counter() - started:.1f} s.")
    snapshot = ld.Table.open(address).snapshot()
    replay = ld_spark.explain_replay(session, snapshot)["replay"]
    print(f"   The log is replayed by {replay['by']}: {replay['reason']}.")
    agreed = True
    for where in (None, ONE_DAY):
        started = time.perf_counter()
        files = ld_spark.live_files(session, snapshot, where=where, fields=["size"])
        with ld_spark.described(session, f"lazydelta: files of {where or 'the whole table'}"):
            count = files.count()
        seconds = time.perf_counter() - started
        here = sum(batch.num_rows for batch in snapshot.scan(where=where).file_batches())
        verdict = "as in this process" if count == here else f"DIFFERENT: {here:,} in this process"
        agreed &= count == here
        print(f"   {count:>9,} files in {seconds:.1f} s   {verdict}   ({where or 'no filter'})")
    session.stop()
    return 0 if agreed else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about versions of pandas
    with table_to_show(sys.argv) as shown:
        sys.exit(main(shown))
