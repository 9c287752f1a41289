"""A process with a Spark Connect session that runs programs for tests: `Client(...).run(...)`.

A process can have a classic session or a Connect session, not both. Starting one takes longer than
most programs run, so the tests of this folder share a client.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path

_ANSWER = "ANSWER "


class Client:
    """Handle of the client process."""

    def __init__(self, url: str, log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_client", url],
                cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True,
            )  # fmt: skip

    def run(self, program: str, *args: object) -> dict:
        """Run a program with the globals `spark`, `args` and `found`; return `found`."""
        request = {"program": program, "args": [str(arg) for arg in args]}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                answer = json.loads(line.removeprefix(_ANSWER))
                assert answer["error"] is None, answer["error"]
                return answer["found"]
        raise AssertionError(f"the client ended: {self._log.read_text()[-5000:]}")

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()


def _serve(url: str) -> None:
    from lazydelta.spark import connect_session

    spark = connect_session(url)
    assert "connect" in type(spark).__module__, type(spark)
    for line in sys.stdin:
        request = json.loads(line)
        found: dict = {}
        error = None
        try:
            exec(request["program"], {"spark": spark, "args": request["args"], "found": found})
        except Exception:  # noqa: BLE001 - reported to the test
            error = traceback.format_exc()
        answer = json.dumps({"found": found, "error": error})
        sys.stdout.write(f"{_ANSWER}{answer}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    _serve(sys.argv[1])
