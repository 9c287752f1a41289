"""Python workers of the test sessions: forked from a daemon that has imported everything.

A worker ends with the task that fails in it, and these tests make many tasks fail. Each new one
would import pandas, pyarrow and the package anew, which takes longer than most tasks.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["PRELOADED"]

PRELOADED = {
    "spark.python.daemon.module": "tests.spark.daemon",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    # A process that forks should have no threads; pyarrow's allocator would start one at import.
    "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Settings for `local_session`; sessions of programs that test losses go without them."""
