"""The JARs of the reference Delta connector and of Hadoop's S3A: for tests and benchmarks only.

Fetched by Maven coordinates with the machine's own `mvn` and its repositories, into `.cache`, and
verified by hash. The Spark version in the first name is the one pinned in requirements/spark.in.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

__all__ = ["JarsMissingError", "delta_conf", "delta_jars", "s3a_jars"]

VERSION = "4.4.0"
SHA256 = {
    "delta-spark_4.2_2.13": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "delta-kernel-api": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
}
_S3A_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>s3a</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId>
      <version>3.5.0</version>
      <!-- the bundle of the SDK has 600 MB -->
      <exclusions>
        <exclusion>
          <groupId>software.amazon.awssdk</groupId><artifactId>bundle</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>software.amazon.awssdk</groupId><artifactId>s3-transfer-manager</artifactId>
      <version>2.35.4</version>
    </dependency>
    <dependency>
      <groupId>software.amazon.awssdk</groupId><artifactId>sts</artifactId>
      <version>2.35.4</version>
    </dependency>
  </dependencies>
</project>
"""
CACHE = Path(__file__).parents[2] / ".cache" / "maven"
_SECONDS = 300


class JarsMissingError(RuntimeError):
    """The JARs are not available; the message is the reason of the skipped test or benchmark."""


def delta_jars(cache: Path = CACHE) -> list[Path]:
    """Return the JARs, fetching those that are not there yet.

    Raises:
        JarsMissingError: There is no `mvn`, it cannot reach a repository, or a hash is wrong.
    """
    return [_jar(cache, name, digest) for name, digest in SHA256.items()]


def s3a_jars(cache: Path = CACHE) -> list[Path]:
    """Return Hadoop's connector for S3 and the part of Amazon's SDK that it uses, 16 MB.

    Raises:
        JarsMissingError: There is no `mvn`, or it cannot reach a repository.
    """
    jars = cache / "s3a"
    if not (jars / "pom.xml").is_file():
        jars.mkdir(parents=True, exist_ok=True)
        pom = jars / "new-pom.xml"
        pom.write_text(_S3A_POM, encoding="utf-8")
        _run_maven(cache, "S3A", "-f", str(pom), "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={jars}")  # fmt: skip
        pom.rename(jars / "pom.xml")  # it is complete
    return sorted(jars.glob("*.jar"))


def delta_conf(jars: list[Path]) -> dict[str, str]:
    """Return the settings that make a session read and write with the reference connector."""
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def _jar(cache: Path, name: str, digest: str) -> Path:
    path = cache / "io" / "delta" / name / VERSION / f"{name}-{VERSION}.jar"
    if not path.is_file():
        _fetch(cache, f"io.delta:{name}:{VERSION}")
    if not path.is_file():
        raise JarsMissingError(
            f"mvn fetched io.delta:{name}:{VERSION} to another place than {path}"
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        raise JarsMissingError(f"{path} has the hash {found}, not {digest}: delete it")
    return path


def _fetch(cache: Path, artifact: str) -> None:
    _run_maven(cache, artifact, "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false")


def _run_maven(cache: Path, artifact: str, *arguments: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissingError(f"{artifact} is not in {cache}, and there is no mvn to fetch it")
    command = [maven, "--batch-mode", "--quiet", *arguments, f"-Dmaven.repo.local={cache}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise JarsMissingError(f"mvn did not fetch {artifact} in {_SECONDS} s") from None
    if done.returncode != 0:
        raise JarsMissingError(f"mvn could not fetch {artifact}: is a repository reachable?")
