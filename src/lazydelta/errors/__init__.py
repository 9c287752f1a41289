"""Every error lazydelta raises on purpose: facts as fields, and a message that names the cure.

`DeltaError` catches all of them. Each class also derives from the builtin exception that a Python
user expects, and all of them pickle, because Spark and process pools send them between processes.
Nothing here knows about tables, logs or stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports
from lazydelta.errors.base import (
    DeltaError,
    InternalError,
    redact,
)
from lazydelta.errors.callers import (
    ConfigError,
    ForkedProcessError,
    JavaNotFoundError,
    MissingExtraError,
    MissingPackageError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectReplacedError,
    PageTokenError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
    UnsupportedOperationError,
)
from lazydelta.errors.os_errors import from_os_error
from lazydelta.errors.rows import (
    ChangeFeedDisabledError,
    ChangeFeedSchemaError,
    ColumnNotFoundError,
    DataFileError,
    DataFileNotFoundError,
    DeletionVectorError,
    FilesNotFoundError,
    PredicateError,
    QueryError,
    SchemaError,
    StreamChangesError,
    StreamSchemaError,
)
from lazydelta.errors.tables import (
    BundleMismatchError,
    LogCorruptError,
    LogGapError,
    PathNotAllowedError,
    RetentionGuardError,
    TableNotFoundError,
    TimestampNotFoundError,
    UnsupportedActionError,
    UnsupportedFeatureError,
    VersionCleanedUpError,
    VersionNotCommittedError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from lazydelta.errors.writes import (
        AlterationError,
        AppendOnlyError,
        CommitAttemptsError,
        CommitConflictError,
        CommitUnknownError,
        ConcurrentAppendError,
        ConcurrentDeleteDeleteError,
        ConcurrentDeleteReadError,
        ConcurrentTransactionError,
        ConstraintViolationError,
        IdentityExhaustedError,
        InvalidCommitError,
        MetadataChangedError,
        MultipleMatchesError,
        ProtocolChangedError,
        SchemaMismatchError,
        TableExistsError,
    )

__all__ = [
    "AlterationError",
    "AppendOnlyError",
    "BundleMismatchError",
    "ChangeFeedDisabledError",
    "ChangeFeedSchemaError",
    "ColumnNotFoundError",
    "CommitAttemptsError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConfigError",
    "ConstraintViolationError",
    "DataFileError",
    "DataFileNotFoundError",
    "DeletionVectorError",
    "DeltaError",
    "FilesNotFoundError",
    "ForkedProcessError",
    "IdentityExhaustedError",
    "InternalError",
    "InvalidCommitError",
    "JavaNotFoundError",
    "LogCorruptError",
    "LogGapError",
    "MetadataChangedError",
    "MissingExtraError",
    "MissingPackageError",
    "MultipleMatchesError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ObjectReplacedError",
    "PageTokenError",
    "PathNotAllowedError",
    "PredicateError",
    "ProtocolChangedError",
    "QueryError",
    "RetentionGuardError",
    "SchemaError",
    "SchemaMismatchError",
    "StoreAccessError",
    "StoreError",
    "StreamChangesError",
    "StreamSchemaError",
    "TableExistsError",
    "TableNotFoundError",
    "TimestampNotFoundError",
    "TransientStoreError",
    "UnsupportedActionError",
    "UnsupportedFeatureError",
    "UnsupportedOperationError",
    "VersionCleanedUpError",
    "VersionNotCommittedError",
    "VersionNotFoundError",
    "from_os_error",
    "redact",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "writes": (
            "AlterationError",
            "AppendOnlyError",
            "CommitAttemptsError",
            "CommitConflictError",
            "CommitUnknownError",
            "ConcurrentAppendError",
            "ConcurrentDeleteDeleteError",
            "ConcurrentDeleteReadError",
            "ConcurrentTransactionError",
            "ConstraintViolationError",
            "IdentityExhaustedError",
            "InvalidCommitError",
            "MetadataChangedError",
            "MultipleMatchesError",
            "ProtocolChangedError",
            "SchemaMismatchError",
            "TableExistsError",
        ),
    },
)
