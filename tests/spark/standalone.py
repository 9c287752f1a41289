"""A standalone cluster of Spark on loopback: a master and workers, each a process of its own.

Each worker has an address of its own. Spark starts no second attempt of a slow task on the host of
the first one, and the workers of `local-cluster[...]` have one host.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(find_spec("pyspark").origin).parent
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_SECONDS = 90
_MOST_SECONDS = 1800
"""When the processes end by themselves."""


@contextmanager
def standalone_cluster(directory, workers=2):
    """Start a cluster with an executor of one core for each worker, and yield its address."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs Linux: /proc, and all of 127.0.0.0/8 as loopback")
    directory.mkdir(parents=True, exist_ok=True)
    started = []

    def start(kind, address, *arguments):
        log = directory / f"{kind}-{address}.log"
        command = ["timeout", str(_MOST_SECONDS), SPARK_HOME / "bin" / "spark-class"]
        command.append(f"org.apache.spark.deploy.{kind}")
        with log.open("wb") as output:
            started.append(
                subprocess.Popen(
                    [*command, "--host", address, "--port", "0", "--webui-port", "0", *arguments],
                    stdout=output, stderr=subprocess.STDOUT, cwd=directory,
                    env=_environment(address), start_new_session=True,
                )
            )  # fmt: skip
        return log

    try:
        master = _logged(start("master.Master", "127.0.0.1"), _MASTER)
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / "work"))
        logs = [
            start("worker.Worker", f"127.0.0.{2 + number}", *size, master)
            for number in range(workers)
        ]
        for log in logs:
            _logged(log, re.compile(f"({_REGISTERED})"))
        yield master
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            process.wait(_SECONDS)


def _environment(address):
    """The environment of a worker, which its executors inherit: they import this repository."""
    from lazydelta.spark.java import java_home

    home = java_home()
    given = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": address,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    return given if home is None else {**given, "JAVA_HOME": home}


def _logged(log, pattern):
    """Wait until a process has logged a line, and return its first group."""
    for _ in range(20 * _SECONDS):
        found = pattern.search(log.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.05)
    pytest.fail(f"the cluster does not start: {log.read_text()[-3000:]}")
