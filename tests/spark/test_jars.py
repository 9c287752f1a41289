"""The reference connector's JARs: fetched once, trusted by hash, and their absence explained."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pyspark
import pytest

from tests.spark import jars

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cached(monkeypatch, tmp_path):
    """A cache that holds one made-up JAR, and a machine without Maven."""
    path = tmp_path / "io" / "delta" / "x" / jars.VERSION / f"x-{jars.VERSION}.jar"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    monkeypatch.setattr(jars, "SHA256", {"x": hashlib.sha256(b"classes").hexdigest()})
    monkeypatch.setattr(jars.shutil, "which", lambda name: None)
    return path


def test_what_is_there_is_not_fetched_again(cached, tmp_path):
    assert jars.delta_jars(tmp_path) == [cached]


def test_a_wrong_hash_is_refused(cached, tmp_path):
    cached.write_bytes(b"other classes")
    with pytest.raises(jars.JarsMissingError, match="has the hash"):
        jars.delta_jars(tmp_path)


def test_a_machine_without_maven_is_an_error(cached, tmp_path):
    cached.unlink()
    with pytest.raises(jars.JarsMissingError, match="no mvn to fetch it"):
        jars.delta_jars(tmp_path)


def test_a_failing_maven_is_an_error(cached, tmp_path, monkeypatch):
    cached.unlink()
    failing = tmp_path / "mvn"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o700)
    monkeypatch.setattr(jars.shutil, "which", lambda name: str(failing))
    with pytest.raises(jars.JarsMissingError, match="is a repository reachable"):
        jars.delta_jars(tmp_path)


@pytest.mark.spark4
def test_the_jars_are_for_a_spark_that_we_support():
    spark = next(name for name in jars.SHA256 if name.startswith("delta-spark_")).split("_")[1]
    pin = (ROOT / "requirements" / "spark.in").read_text(encoding="utf-8").split("<=")[1].strip()
    assert pin.rpartition(".")[0] == spark
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (declared,) = (
        requirement
        for requirement in extra["project"]["optional-dependencies"]["spark"]
        if requirement.startswith("pyspark")
    )
    assert declared == "pyspark[connect]>=4.1,<4.3"
    assert (4, 1) <= tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3)
