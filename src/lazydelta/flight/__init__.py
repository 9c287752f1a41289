"""A client of `lazydelta serve` over Arrow Flight: tables and scans as if they were local.

>>> import lazydelta.flight
>>> with lazydelta.flight.connect("grpc://127.0.0.1:50051", token="secret") as server:
...     trips = server.table("trips").scan("fare > 50").to_arrow()  # doctest: +SKIP
"""

from __future__ import annotations

from lazydelta.flight.connection import FlightConnection, connect
from lazydelta.flight.remote_file import RemoteFile
from lazydelta.flight.remote_scan import RemoteScan
from lazydelta.flight.remote_table import RemoteTable

__all__ = ["FlightConnection", "RemoteFile", "RemoteScan", "RemoteTable", "connect"]
