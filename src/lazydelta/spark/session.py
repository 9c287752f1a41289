"""Spark sessions for the command line, the examples and the tests: local or Spark Connect."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import tempfile
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lazydelta.errors import ConfigError
from lazydelta.spark.java import java_home

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["connect_session", "local_session"]

_LOOPBACK = "127.0.0.1"
_CONNECT_PORT = 15002
_CONNECT_SECONDS = 10.0
_CONF = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",  # row changes require it; not the default of Spark 3.5
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # From Spark 4.1 on. Through TCP, a small task waits 40 ms for a delayed acknowledgment.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
_CONNECT_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


def local_session(
    *,
    cores: int | None = None,
    name: str = "lazydelta",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session on this machine that listens on loopback only.

    Args:
        cores: Number of concurrent tasks; None is the number of cores.
        name: Application name.
        conf: Settings, which override the defaults.

    Raises:
        JavaNotFoundError: No suitable Java was found.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # Workers need the packages of this environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    scratch = tempfile.mkdtemp(prefix="lazydelta-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    threads = cores or os.cpu_count() or 1
    settings: dict[str, bool | float | int | str | None] = {
        **_CONF,
        "spark.app.name": name,
        "spark.sql.warehouse.dir": scratch,
        "spark.local.dir": scratch,
        "spark.sql.shuffle.partitions": str(2 * threads),
        **(conf or {}),
    }
    return SparkSession.builder.master(f"local[{threads}]").config(map=settings).getOrCreate()


def connect_session(url: str, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session of a Spark Connect server.

    A process has either Connect sessions or a classic one. Errors come without the Java stack of
    the server, as in a classic session; `conf` may turn it on.

    Args:
        url: The server, `sc://host:port/;options`.
        conf: Settings of the session.

    Raises:
        ConfigError: An invalid URL, an unreachable server, or a setting that it refuses.
    """
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port or _CONNECT_PORT
    except ValueError:
        host, port = None, _CONNECT_PORT
    if not url.startswith("sc://") or host is None:
        raise ConfigError("remote", f"{url!r} is not a Spark Connect URL, such as sc://host:15002")
    try:
        # The client would retry an unreachable server for ten minutes.
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError("remote", f"no Spark Connect server at {host}:{port}: {error}") from None
    session = SparkSession.builder.remote(url).getOrCreate()
    for key, value in {**_CONNECT_CONF, **(conf or {})}.items():
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            session.stop()
            reason = f"the server refuses this setting: {error}"
            raise ConfigError(key, reason) from None
    return session
