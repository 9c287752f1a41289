"""A Spark Connect server in a separate process, on a free port: `ConnectServer(...)`."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

_PATIENCE_SECONDS = 120
_TRIES = 3  # another process may take the port before the server does


class ConnectServer:
    """Handle of the server process: `url` is valid until `close()`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        for left in reversed(range(_TRIES)):
            port = _free_port()
            self.url = f"sc://127.0.0.1:{port}"
            with log.open("w") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_server", str(port)],
                    cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                    stderr=errors,
                )  # fmt: skip
            if self._answers(port):
                return
            self.close()
            if not left:
                raise AssertionError(f"no server of Connect: {log.read_text()[-5000:]}")

    def _answers(self, port: int) -> bool:
        """Wait until the server listens; return whether it does."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return self._process.poll() is None
        return False

    def close(self) -> None:
        """Stop the server: it exits when its standard input is closed."""
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _serve(port: str) -> None:
    from lazydelta.spark import local_session
    from tests.spark.workers import PRELOADED

    spark = local_session(
        cores=2,
        conf=PRELOADED
        | {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": port,
        },
    )
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    _serve(sys.argv[1])
