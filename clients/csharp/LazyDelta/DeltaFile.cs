using System;
using System.Collections.Generic;

namespace LazyDelta
{
    /// <summary>One live data file.</summary>
    public sealed class DeltaFile
    {
        public DeltaFile(
            string path,
            long size,
            Dictionary<string, string?>? partitionValues = null,
            DateTime? modificationTime = null)
        {
            Path = path;
            Size = size;
            PartitionValues = partitionValues;
            ModificationTime = modificationTime;
        }

        /// <summary>The absolute URI.</summary>
        public string Path { get; }

        /// <summary>The size in bytes.</summary>
        public long Size { get; }

        /// <summary>The partition values by column; a null value is SQL's NULL.</summary>
        public Dictionary<string, string?>? PartitionValues { get; }

        /// <summary>When the file was written, in UTC.</summary>
        public DateTime? ModificationTime { get; }

        /// <summary>The version of the commit that added the file; null if it is from a checkpoint.</summary>
        public long? Version { get; internal set; }

        /// <summary>The number of rows that are not deleted; null if the log has no count.</summary>
        public long? LiveRows { get; internal set; }

        /// <summary>The deleted rows as ranges of row numbers, the end excluded; null if there are none.
        /// Only for clients with the capability "deletionVectors".</summary>
        public IReadOnlyList<(long Start, long End)>? DeletedRows { get; internal set; }

        /// <summary>Continues a scan exactly after this file, in any process; null within a batch.</summary>
        public string? ResumeToken { get; internal set; }

        public override string ToString() => $"{Path} ({Size} bytes)";
    }
}
