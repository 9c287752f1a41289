"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.spark.connect_client import Client
from tests.spark.connect_server import ConnectServer
from tests.spark.workers import PRELOADED

HERE = Path(__file__).parent
_WARNINGS_OF_PYSPARK = (
    # 4.1 leaves the socket of a `collect` to the garbage collector.
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    # 3.5
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
            for ignored in _WARNINGS_OF_PYSPARK:
                item.add_marker(pytest.mark.filterwarnings(ignored))
            if item.get_closest_marker("spark4") is not None and not _is_spark_4():
                reason = "needs PySpark 4: 3.5 lacks formats in Python and what builds on them"
                item.add_marker(pytest.mark.skip(reason=reason))


def _is_spark_4():
    from lazydelta.spark.spark_releases import IS_SPARK_4

    return IS_SPARK_4


@pytest.fixture(scope="session")
def spark():
    """A classic local session with two threads; tests must not stop it, nor change its settings."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install 'lazydelta[spark]'")
    from lazydelta.errors import JavaNotFoundError
    from lazydelta.spark import local_session

    try:
        session = local_session(cores=2, conf=PRELOADED)
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _active_session(request):
    """Reset the active session, in which Spark looks up formats: an earlier test may have changed it."""
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)


@pytest.fixture(scope="session")
def connect_url(spark, tmp_path_factory):
    """The address of a Spark Connect server; depends on `spark` to skip without Java."""
    pytest.importorskip("grpc", reason="Spark Connect needs `pip install 'lazydelta[spark]'`")
    server = ConnectServer(tmp_path_factory.mktemp("connect") / "server-log")
    yield server.url
    server.close()


@pytest.fixture(scope="session")
def connect(connect_url, tmp_path_factory):
    """A client process with a session on that server."""
    client = Client(connect_url, tmp_path_factory.mktemp("connect") / "client-log")
    yield client
    client.close()
