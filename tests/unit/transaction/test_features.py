"""Which tables may be written, and how a protocol grows."""

from __future__ import annotations

import pytest

from lazydelta.errors import ConfigError
from lazydelta.protocol import TableProtocol, check_protocol, unwritable_features, with_features


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
            id="readers-are-told-what-concerns-them",
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
def test_growing(before, names, after):
    grown = with_features(before, names)
    assert grown == after
    check_protocol(grown)
    assert not unwritable_features(grown)
    assert with_features(grown, names) is grown


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
