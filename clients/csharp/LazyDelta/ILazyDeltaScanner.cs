using System;
using System.Collections.Generic;
using System.Threading;

namespace LazyDelta
{
    /// <summary>Streams the live files of Delta tables while their logs are still being read.</summary>
    public interface ILazyDeltaScanner : IDisposable
    {
        /// <summary>Stream files from a Delta table with minimal memory.</summary>
        /// <remarks>Leaving the loop, or cancelling, stops the scan at its source.</remarks>
        /// <exception cref="LazyDeltaException">The table cannot be read, or the scan failed. A loop
        /// that ends without an exception has received every file.</exception>
        IAsyncEnumerable<DeltaFile> ScanFilesAsync(
            string tablePath,
            ScanOptions? options = null,
            CancellationToken cancellationToken = default);
    }
}
