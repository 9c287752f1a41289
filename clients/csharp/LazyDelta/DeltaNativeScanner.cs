using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace LazyDelta
{
    /// <summary>Scans with liblazydelta, in worker processes on this machine.</summary>
    public sealed class DeltaNativeScanner : ILazyDeltaScanner, IAsyncDisposable
    {
        private readonly string? _storeOptions;

        /// <param name="storeOptions">Options of the tables' store, including credentials; by default
        /// they come from the environment of the process.</param>
        public DeltaNativeScanner(IReadOnlyDictionary<string, string>? storeOptions = null)
        {
            _storeOptions = storeOptions == null ? null : JsonSerializer.Serialize(storeOptions);
        }

        public async IAsyncEnumerable<DeltaFile> ScanFilesAsync(
            string tablePath,
            ScanOptions? options = null,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            cancellationToken.ThrowIfCancellationRequested();
            options ??= new ScanOptions();
            using var scan = await StartAsync(tablePath, options, cancellationToken)
                .ConfigureAwait(false);
            using var registration = cancellationToken.Register(scan.Cancel);
            while (true)
            {
                using var batch = await NextAsync(scan, cancellationToken).ConfigureAwait(false);
                if (batch == null)
                {
                    cancellationToken.ThrowIfCancellationRequested();
                    yield break;
                }
                for (long row = 0; row < batch.Count; row++)
                {
                    cancellationToken.ThrowIfCancellationRequested();
                    yield return batch[row];
                }
            }
        }

        /// <summary>The newest schema of a table as JSON of the Delta protocol: with column mapping, the
        /// metadata of a field has its physical name and its id.</summary>
        public async Task<string> ReadSchemaAsync(
            string tablePath, CancellationToken cancellationToken = default)
        {
            var options = new ScanOptions { Limit = 0, Capabilities = RequestJson.EveryCapability };
            using var scan = await StartAsync(tablePath, options, cancellationToken)
                .ConfigureAwait(false);
            return await Task.Run(() => scan.Metadata("delta.schema")).ConfigureAwait(false);
        }

        public void Dispose()
        {
            // Each scan releases what it holds; workers are shared by the process.
        }

        public ValueTask DisposeAsync() => default;

        /// <summary>Opening waits for the store, and cannot be interrupted: a cancelled caller leaves
        /// it behind, and it ends by itself.</summary>
        private async Task<NativeScan> StartAsync(
            string table, ScanOptions options, CancellationToken cancellation)
        {
            var starting = Task.Run(() => NativeScan.Start(table, _storeOptions, options));
            var cancelled = new TaskCompletionSource<bool>();
            using (cancellation.Register(() => cancelled.TrySetResult(true)))
            {
                if (await Task.WhenAny(starting, cancelled.Task).ConfigureAwait(false) == starting)
                    return await starting.ConfigureAwait(false);
            }
            _ = starting.ContinueWith(
                task => task.Result.Dispose(), TaskContinuationOptions.OnlyOnRanToCompletion);
            throw new OperationCanceledException(cancellation);
        }

        private static async Task<FileBatch?> NextAsync(
            NativeScan scan, CancellationToken cancellation)
        {
            try
            {
                return await Task.Run(scan.Next).ConfigureAwait(false);
            }
            catch (LazyDeltaException error) when (cancellation.IsCancellationRequested)
            {
                throw new OperationCanceledException(error.Message, error, cancellation);
            }
        }
    }
}
