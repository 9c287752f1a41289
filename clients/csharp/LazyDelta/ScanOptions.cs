using System.Collections.Generic;

namespace LazyDelta
{
    /// <summary>Which files a scan returns, and what its client can read.</summary>
    public class ScanOptions
    {
        /// <summary>An object of column and value; a list of [column, operator, value]; or SQL as a
        /// JSON string.</summary>
        public string? PredicateJson { get; set; }

        /// <summary>The maximum number of files.</summary>
        public int? Limit { get; set; }

        public ScanStrategy Strategy { get; set; } = ScanStrategy.Auto;

        /// <summary>The version to read; by default the newest.</summary>
        public long? Version { get; set; }

        /// <summary>Continue exactly after the file with this <see cref="DeltaFile.ResumeToken"/>.</summary>
        public string? Resume { get; set; }

        /// <summary>Table features that the client applies to the files it reads, such as
        /// "deletionVectors". A table that needs another one is refused.</summary>
        public IReadOnlyCollection<string> Capabilities { get; set; } = new string[0];
    }

    /// <summary>The order in which the log is read.</summary>
    public enum ScanStrategy
    {
        Auto,
        Reverse,
        Forward,
    }
}
