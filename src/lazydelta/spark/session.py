"""A Spark session on this machine, for the command line, the demo and the tests.

Nothing else in the room needs it: every function takes the session it is given.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from lazydelta.spark.java import java_home

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["local_session"]

_LOOPBACK = "127.0.0.1"
_CONF = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.connect.grpc.binding.address": _LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def local_session(
    *,
    cores: int | None = None,
    connect: bool = False,
    name: str = "lazydelta",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session that runs in this machine's processes and listens on loopback only.

    Args:
        cores: How many tasks run at once; None takes all cores.
        connect: Whether to start a Spark Connect server and a client of it. A process can have a
            classic session or a Connect one, not both.
        name: Shown in Spark's logs.
        conf: More settings, which override those made here.

    Raises:
        JavaNotFoundError: There is no Java to run Spark with.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # Workers must have the packages of this very environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    scratch = tempfile.mkdtemp(prefix="lazydelta-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    threads = cores or os.cpu_count() or 1
    place = f"local[{threads}]"
    settings: dict[str, bool | float | int | str | None] = {
        **_CONF,
        "spark.app.name": name,
        "spark.sql.warehouse.dir": scratch,
        "spark.local.dir": scratch,
        "spark.sql.shuffle.partitions": str(2 * threads),
        **(conf or {}),
    }
    builder = SparkSession.builder
    builder = builder.remote(place) if connect else builder.master(place)
    return builder.config(map=settings).getOrCreate()
