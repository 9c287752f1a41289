"""Hadoop URLs of tables on object stores, and a probe of Spark's Hadoop connectors.

Spark's own Parquet scan opens files through Hadoop, whose connectors and credentials are not those
of this package. The probe finds out whether they work before a query depends on them.
"""

from __future__ import annotations

import math
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from lazydelta._parallel import start_thread
from lazydelta.spark import tuning
from lazydelta.store import is_local
from lazydelta.store.cloud import client_options, parse_store_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["azure_host", "cannot_open_reason", "hadoop_root"]

_AZURE_HOST = re.compile(r"https://([a-z0-9-]+(?:\.z[a-z0-9]+)?)\.(?:blob|dfs)\.([a-z.]+)/?")
_NO_CONNECTOR = ("ClassNotFoundException", "No FileSystem for scheme", "NoClassDefFoundError")
_JAVA_ERROR = re.compile(r"\b(?:[a-z]\w*\.)+(\w+(?:Exception|Error))\b")
_READ_OPTIONS = {"__globPaths__": "false", "recursiveFileLookup": "true"}
_probed: WeakKeyDictionary[SparkSession, dict[str, tuple[float, str | None]]] = WeakKeyDictionary()
"""When each root was probed, and why Spark cannot open it."""


def hadoop_root(store: Store) -> str | None:
    """Return the URL under which Hadoop has a table; None if it has none.

    Hadoop takes plain paths, without percent-encoding.
    """
    if is_local(store):
        return f"file://{store.root.rstrip('/')}"
    inner: Any = store
    while (below := getattr(inner, "inner", None)) is not None:
        inner = below
    options: Mapping[str, str] | None = getattr(inner, "options", None)
    if options is None:
        return None
    url = parse_store_url(store.root)
    config = client_options(url.provider, {**url.options, **options}).config
    authority = f"{'s3a' if url.provider == 's3' else 'gs'}://{url.bucket}"
    if url.provider == "azure":
        host = azure_host(config)
        if host is None:
            return None
        authority = f"abfss://{url.bucket}@{host}"
    return f"{authority}/{url.prefix}".rstrip("/")


def azure_host(config: Mapping[str, str]) -> str | None:
    """Return the host of a storage account for Hadoop; None if the account is unknown.

    Hadoop's connector reaches accounts by HTTPS only, so an emulator has none.
    """
    account, endpoint = config.get("account_name"), config.get("endpoint")
    if config.get("use_fabric_endpoint") == "true":
        return f"{account or 'onelake'}.dfs.fabric.microsoft.com"
    if endpoint is not None:
        match = _AZURE_HOST.fullmatch(endpoint)
        return None if match is None else f"{match[1]}.dfs.{match[2]}"
    return None if account is None else f"{account}.dfs.core.windows.net"


def cannot_open_reason(spark: SparkSession, snapshot: SnapshotState) -> str | None:
    """Return why Spark cannot open the files of a table; None if it can.

    A task of Spark opens a file of the log, once per session and table.
    """
    if is_local(snapshot.store):
        return None
    root = hadoop_root(snapshot.store)
    if root is None:
        return "Hadoop has no URL for its store"
    known, now = _probed.setdefault(spark, {}), time.monotonic()
    probed_at, reason = known.get(root, (-math.inf, "it was not probed"))
    if reason is not None and now - probed_at >= tuning.PROBE_AGAIN_SECONDS:
        reason = _probe(spark, snapshot, root)
        known[root] = (now, reason)
    return reason


def _probe(spark: SparkSession, snapshot: SnapshotState, root: str) -> str | None:
    """Open a log file of the table; another size means that Hadoop finds another table there."""
    segment = snapshot.segment
    files = segment.tail or (() if segment.checkpoint is None else segment.checkpoint.files)
    file = files[-1]
    task = start_thread(partial(_length, spark, f"{root}/{file.path}"))
    try:
        length = task.result(tuning.PROBE_SECONDS)
    except TimeoutError:
        return f"Spark did not open {root} within {tuning.PROBE_SECONDS:.0f} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, our reader does not need Hadoop
        return _reason(root, error)
    if length != file.size:
        return f"Spark finds another table at {root}"
    return None


def _length(spark: SparkSession, path: str) -> int:
    # By a reader instead of Hadoop's classes: this works through Spark Connect, and on executors.
    frame = spark.read.format("binaryFile").options(**_READ_OPTIONS).load(path)
    (row,) = frame.select("length").collect()
    return int(row[0])


def _reason(root: str, error: Exception) -> str:
    """Return the kind of an error; its message could quote a credential."""
    message = str(error)
    if any(name in message for name in _NO_CONNECTOR):
        scheme = urlsplit(root).scheme
        return f"the Hadoop connector for {scheme} is not on Spark's class path"
    match = _JAVA_ERROR.search(message)
    name = type(error).__name__ if match is None else match[1]
    return f"Spark cannot open {root}: {name}"
