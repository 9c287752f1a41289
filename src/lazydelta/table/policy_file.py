"""Policy files: JSON, TOML or YAML, by the suffix of their name."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from lazydelta.errors import ConfigError, MissingPackageError
from lazydelta.table.maintenance_policy import MaintenancePolicy, parse_policy

__all__ = ["PolicySource", "load_policy"]

PolicySource = str | os.PathLike[str] | Mapping[str, Any] | MaintenancePolicy


def load_policy(source: PolicySource) -> MaintenancePolicy:
    """Read and validate a maintenance policy.

    Args:
        source: The path of a `.json`, `.toml`, `.yaml` or `.yml` file, or its content.

    Raises:
        ConfigError: The file cannot be read, or the policy is invalid.
        MissingPackageError: The file is YAML, and PyYAML is not installed.
    """
    if isinstance(source, MaintenancePolicy):
        return source
    if isinstance(source, str | os.PathLike):
        return parse_policy(_read(Path(source)))
    return parse_policy(source)


def _read(path: Path) -> Any:
    parsers = {".json": orjson.loads, ".toml": _toml, ".yaml": _yaml, ".yml": _yaml}
    suffix = path.suffix.lower()
    if suffix not in parsers:
        raise ConfigError(str(path), f"must end in one of {', '.join(parsers)}")
    try:
        return parsers[suffix](path.read_bytes())
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from None
    except ValueError as error:  # of all parsers; UnicodeDecodeError is one too
        raise ConfigError(str(path), f"is not valid {suffix[1:].upper()}: {error}") from None


def _toml(data: bytes) -> Any:
    return tomllib.loads(data.decode())


def _yaml(data: bytes) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise MissingPackageError(
            "PyYAML", "a policy in YAML; JSON and TOML need no package"
        ) from None
    try:
        return yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
