"""Regressions found by the round trips."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pyarrow as pa
import pytest

import lazydelta as ld

CHARACTERS = [*string.punctuation, " ", "\t", "é", "😀"]


def test_deltalake_matches_our_paths_for_every_partition_value(tmp_path):
    """It compares paths as strings, and missed those with encoded `!$&()+,;@` or with `~`."""
    deltalake = pytest.importorskip("deltalake")
    values = [f"a{character}b" for character in CHARACTERS]
    for turn in range(2):
        rows = pa.table({"id": [turn] * len(values), "p": values})
        ld.write(tmp_path / "t", rows, "append", partition_by="p")
    done = deltalake.DeltaTable(tmp_path / "t").optimize.compact()
    assert (done["numFilesAdded"], done["numFilesRemoved"]) == (len(values), 2 * len(values))
    found = ld.Table.open(tmp_path / "t").to_arrow()
    assert sorted(found["p"].to_pylist()) == sorted(2 * values)


def test_a_checksum_may_list_features_in_any_order(tmp_path):
    """Spark writes them in set order; our next checkpoint took that for corruption."""
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "2"}
    table = ld.Table.create(tmp_path / "t", "id long", properties=properties)
    path = Path(tmp_path / "t" / "_delta_log" / f"{0:020}.crc")
    checksum = json.loads(path.read_text())
    assert len(checksum["protocol"]["writerFeatures"]) > 1
    checksum["protocol"]["writerFeatures"].reverse()
    path.write_text(json.dumps(checksum))
    for number in range(3):
        assert table.write({"id": [number]}).warnings == ()
    assert (tmp_path / "t" / "_delta_log" / f"{2:020}.checkpoint.parquet").is_file()
    assert table.check().ok
