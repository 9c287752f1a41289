using System;

namespace LazyDelta
{
    /// <summary>Why a scan failed; the numbers are those of gRPC.</summary>
    public enum DeltaStatus
    {
        Cancelled = 1,
        Unknown = 2,
        InvalidArgument = 3,
        DeadlineExceeded = 4,
        NotFound = 5,
        AlreadyExists = 6,
        PermissionDenied = 7,
        ResourceExhausted = 8,
        FailedPrecondition = 9,
        Aborted = 10,
        OutOfRange = 11,
        Unimplemented = 12,
        Internal = 13,
        Unavailable = 14,
        DataLoss = 15,
        Unauthenticated = 16,
    }

    /// <summary>A scan that failed: the files received so far are not all.</summary>
    public class LazyDeltaException : Exception
    {
        public LazyDeltaException(
            DeltaStatus status, string errorType, string message, Exception? inner = null)
            : base(message, inner)
        {
            Status = status;
            ErrorType = errorType;
        }

        public DeltaStatus Status { get; }

        /// <summary>The name of lazydelta's error class, such as "TableNotFoundError".</summary>
        public string ErrorType { get; }

        /// <summary>Whether the same scan may succeed later.</summary>
        public bool IsRetryable =>
            Status == DeltaStatus.Unavailable
            || Status == DeltaStatus.ResourceExhausted
            || Status == DeltaStatus.DeadlineExceeded;
    }
}
