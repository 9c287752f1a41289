"""A server in a process of its own, and its memory, open files and running scans."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ServerProcess", "running"]

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running server."""

    pid: int
    url: str
    flight_port: int

    def memory(self, field: str = "VmRSS") -> int:
        """Return the resident memory in bytes; `VmHWM` is its peak."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        """Return the number of open files and sockets."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def scans(self) -> int:
        """Return the number of scans that have a slot."""
        with urlopen(f"{self.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own server
            text = answer.read().decode()
        return int(re.search(r"^lazydelta_serve_scans_running (\d+)$", text, re.MULTILINE)[1])


@contextlib.contextmanager
def running(tables: Mapping[str, Path], limits: str = "") -> Iterator[ServerProcess]:
    """Run a server of tables; end it by SIGTERM."""
    flight_port = _free_port()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "serve.toml")
        entries = "".join(f'[[tables]]\nname = "{n}"\nurl = "{p}"\n' for n, p in tables.items())
        ports = f"[http]\nport = 0\n[flight]\nport = {flight_port}\n"
        config.write_text(f"{entries}{ports}[limits]\n{limits}\n", "utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "lazydelta", "serve", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": str(_ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        )
        try:
            url = process.stdout.readline().split()[-1]
            yield ServerProcess(pid=process.pid, url=url, flight_port=flight_port)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
