"""Writable protocols, and adding features to a protocol."""

from __future__ import annotations

import pytest

from lazydelta.errors import ConfigError
from lazydelta.protocol import MalformedActionError, TableProtocol
from lazydelta.protocol.features import (
    check_protocol,
    supported_features,
    unreadable_features,
    unsupported_error,
    unwritable_features,
    with_features,
)


def protocol(reader, writer, reader_features=None, writer_features=None):
    return TableProtocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=reader_features,
        writer_features=writer_features,
    )


_LEGACY_4 = ("appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants")


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        pytest.param(protocol(1, 2), ["appendOnly"], protocol(1, 2), id="what-a-number-stands-for"),
        pytest.param(protocol(1, 2), [], protocol(1, 2), id="nothing"),
        pytest.param(
            protocol(1, 4),
            ["domainMetadata"],
            protocol(1, 7, None, tuple(sorted((*_LEGACY_4, "domainMetadata")))),
            id="numbers-are-spelt-out-and-readers-left-alone",
        ),
        pytest.param(
            protocol(1, 2),
            ["deletionVectors"],
            protocol(3, 7, ("deletionVectors",), ("appendOnly", "deletionVectors", "invariants")),
            id="reader-features-are-listed-for-readers",
        ),
        pytest.param(
            protocol(2, 5),
            ["v2Checkpoint"],
            protocol(
                3,
                7,
                ("columnMapping", "v2Checkpoint"),
                tuple(sorted((*_LEGACY_4, "columnMapping", "v2Checkpoint"))),
            ),
            id="what-readers-knew-by-number-is-spelt-out-too",
        ),
        pytest.param(
            protocol(1, 1),
            ["rowTracking"],
            protocol(1, 7, None, ("domainMetadata", "rowTracking")),
            id="with-what-it-depends-on",
        ),
        pytest.param(
            protocol(3, 7, (), ("columnMapping",)),
            ["columnMapping"],
            protocol(3, 7, ("columnMapping",), ("columnMapping",)),
            id="readers-that-were-forgotten",
        ),
        pytest.param(protocol(1, 1), ["appendOnly"], protocol(1, 2), id="writer-2"),
        pytest.param(protocol(1, 2), ["checkConstraints"], protocol(1, 3), id="writer-3"),
        pytest.param(protocol(1, 2), ["changeDataFeed"], protocol(1, 4), id="writer-4"),
        pytest.param(protocol(1, 3), ["generatedColumns"], protocol(1, 4), id="from-writer-3"),
        pytest.param(protocol(1, 2), ["columnMapping"], protocol(2, 5), id="reader-2-writer-5"),
        pytest.param(protocol(1, 5), ["columnMapping"], protocol(2, 5), id="reader-2-alone"),
        pytest.param(protocol(1, 2), ["identityColumns"], protocol(1, 6), id="writer-6"),
        pytest.param(
            protocol(1, 4), ["identityColumns", "columnMapping"], protocol(2, 6), id="both-versions"
        ),
        pytest.param(
            protocol(1, 7, None, ("appendOnly",)),
            ["checkConstraints"],
            protocol(1, 7, None, ("appendOnly", "checkConstraints")),
            id="a-writer-list-gets-the-name",
        ),
        pytest.param(
            protocol(1, 7, None, ("appendOnly",)),
            ["columnMapping"],
            protocol(3, 7, ("columnMapping",), ("appendOnly", "columnMapping")),
            id="a-writer-list-gets-a-reader-list",
        ),
        pytest.param(
            protocol(2, 7, None, ("columnMapping",)),
            ["deletionVectors"],
            protocol(
                3, 7, ("columnMapping", "deletionVectors"), ("columnMapping", "deletionVectors")
            ),
            id="reader-2-by-name-in-both-lists",
        ),
        pytest.param(
            protocol(2, 2),
            ["rowTracking"],
            protocol(
                2,
                7,
                None,
                ("appendOnly", "columnMapping", "domainMetadata", "invariants", "rowTracking"),
            ),
            id="reader-2-keeps-its-feature",
        ),
        pytest.param(
            protocol(3, 7, ("deletionVectors",), ("deletionVectors",)),
            ["clustering"],
            protocol(
                3, 7, ("deletionVectors",), ("clustering", "deletionVectors", "domainMetadata")
            ),
            id="lists-grow",
        ),
    ],
)
def test_adding_features(before, names, after):
    grown = with_features(before, names)
    assert grown == after
    check_protocol(grown)
    assert not unwritable_features(grown)
    assert with_features(grown, names) is grown


@pytest.mark.parametrize(
    ("given", "supported"),
    [
        (protocol(1, 1), set()),
        (protocol(1, 2), {"appendOnly", "invariants"}),
        (protocol(1, 3), {"appendOnly", "invariants", "checkConstraints"}),
        (protocol(1, 4), set(_LEGACY_4)),
        (protocol(1, 5), set(_LEGACY_4)),
        (protocol(2, 4), set(_LEGACY_4)),
        (protocol(2, 5), {*_LEGACY_4, "columnMapping"}),
        (protocol(1, 6), {*_LEGACY_4, "identityColumns"}),
        (protocol(2, 6), {*_LEGACY_4, "columnMapping", "identityColumns"}),
        (protocol(1, 7, None, ()), set()),
        (protocol(2, 7, None, ("columnMapping",)), {"columnMapping"}),
        (protocol(3, 7, ("columnMapping",), ("columnMapping",)), {"columnMapping"}),
        (protocol(3, 7, (), ("appendOnly",)), {"appendOnly"}),
    ],
)
def test_what_a_protocol_supports(given, supported):
    assert supported_features(given) == supported
    check_protocol(given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (protocol(1, 7), "minWriterVersion 7 but no writerFeatures"),
        (protocol(2, 7), "minWriterVersion 7 but no writerFeatures"),
        (protocol(3, 7, ()), "minWriterVersion 7 but no writerFeatures"),
        (protocol(3, 7, None, ()), "minReaderVersion 3 but no readerFeatures"),
        (protocol(3, 6, ()), "minReaderVersion 3 but minWriterVersion below 7"),
        (protocol(1, 7, None, ("deletionVectors",)), "deletionVectors in writerFeatures, but"),
        (protocol(2, 7, None, ("deletionVectors",)), "deletionVectors in writerFeatures, but"),
        (protocol(1, 7, None, ("columnMapping",)), "columnMapping in writerFeatures, but"),
        (protocol(3, 7, (), ("v2Checkpoint",)), "v2Checkpoint in writerFeatures, but"),
        (protocol(3, 7, ("v2Checkpoint",), ()), "readerFeatures, not in writerFeatures"),
        (protocol(2, 5, ("columnMapping",)), "readerFeatures but minReaderVersion 2"),
        (protocol(1, 4, None, ("changeDataFeed",)), "writerFeatures but minWriterVersion 4"),
    ],
    ids=str,
)
def test_versions_and_lists_that_contradict_each_other(given, reason):
    with pytest.raises(MalformedActionError, match=reason):
        check_protocol(given)


@pytest.mark.parametrize(
    "feature",
    [
        "catalogManaged",
        "catalogManaged-preview",
        "catalogOwned",
        "catalogOwned-preview",
        "coordinatedCommits",
        "coordinatedCommits-preview",
    ],
)
@pytest.mark.parametrize("reader", [1, 3])
def test_catalog_managed_tables_are_refused(feature, reader):
    given = protocol(reader, 7, (feature,) if reader == 3 else None, (feature,))
    assert unreadable_features(given) == (feature,)
    assert unwritable_features(given) == (feature,)
    assert unsupported_error("t", (feature,), "read").cure == "Open it through its catalog."


def test_a_feature_that_is_not_implemented_is_not_added():
    with pytest.raises(ConfigError, match="icebergCompatV2"):
        with_features(protocol(1, 2), ["icebergCompatV2"])


@pytest.mark.parametrize(
    ("given", "unwritable"),
    [
        (protocol(1, 1), ()),
        (protocol(2, 6), ()),
        (protocol(1, 8), ("writer version 8",)),
        (
            protocol(1, 7, None, ("appendOnly", "zebra", "icebergCompatV1")),
            ("icebergCompatV1", "zebra"),
        ),
        (protocol(3, 7, ("zebra",), ("zebra",)), ("zebra",)),
        (protocol(3, 7, ("catalogManaged",), ("catalogManaged",)), ("catalogManaged",)),
    ],
    ids=["oldest", "all-numbers", "future", "writer-lists", "reader-lists", "catalogs"],
)
def test_what_cannot_be_written(given, unwritable):
    assert unwritable_features(given) == unwritable
