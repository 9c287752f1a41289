"""Metadata changes of winning commits: compatible with a transaction, or a conflict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lazydelta.errors import MetadataChangedError
from lazydelta.protocol.features import with_features
from tests.unit.transaction.support import (
    METADATA,
    PROTOCOL,
    actions_of,
    append,
    base_of,
    info_of,
    make_table,
    put,
    run,
    schema_string,
    with_properties,
)

_MAPPED = {
    name: {"delta.columnMapping.id": n + 1, "delta.columnMapping.physicalName": name}
    for n, name in enumerate(["id", "p", "x"])
}


def _switched(**properties):
    return with_properties(**properties)


@pytest.mark.parametrize(
    ("features", "metadata"),
    [
        (["rowTracking"], _switched(enableRowTracking="true")),
        (["inCommitTimestamp"], _switched(enableInCommitTimestamps="true")),
        (["v2Checkpoint"], _switched(checkpointPolicy="v2")),
        (
            ["columnMapping"],
            replace(
                _switched(**{"columnMapping.mode": "name", "columnMapping.maxColumnId": "3"}),
                schema_string=schema_string(**_MAPPED),
            ),
        ),
    ],
    ids=["row-tracking", "timestamps", "checkpoints", "column-mapping"],
)
def test_an_append_is_compatible_with_the_change(features, metadata):
    store = make_table()
    base = base_of(store)
    put(
        store,
        1,
        ("protocol", with_features(PROTOCOL, features).to_json()),
        ("metaData", metadata.to_json()),
        blind=True,
        inCommitTimestamp=9_000_000_000_000,
    )
    assert run(append(), store, base).version == 2
    (written,) = actions_of(store, 2, "add")
    assert ("baseRowId" in written) == (features == ["rowTracking"])
    timed = info_of(store, 2).get("inCommitTimestamp")
    assert timed == (9_000_000_000_001 if features == ["inCommitTimestamp"] else None)


@pytest.mark.parametrize(
    "metadata",
    [
        _switched(enableDeletionVectors="false"),
        _switched(appendOnly="true"),
        replace(METADATA, name="renamed"),
        replace(METADATA, id="another"),
        replace(METADATA, partition_columns=()),
        replace(
            _switched(**{"columnMapping.mode": "name"}),
            schema_string=schema_string(
                **{**_MAPPED, "x": {"delta.columnMapping.physicalName": "col-1"}}
            ),
        ),
        replace(METADATA, schema_string=schema_string([("id", "string"), ("p", "string")])),
    ],
    ids=["off", "another", "name", "id", "partitioning", "other-names", "types"],
)
def test_any_other_change_of_metadata_is_a_conflict(metadata):
    store = make_table()
    base = base_of(store)
    put(
        store,
        1,
        ("protocol", with_features(PROTOCOL, ["columnMapping"]).to_json()),
        ("metaData", metadata.to_json()),
        blind=True,
    )
    with pytest.raises(MetadataChangedError):
        run(append(), store, base)
