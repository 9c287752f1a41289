using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace LazyDelta
{
    /// <summary>Scans with a server, `lazydelta serve`, over HTTP.</summary>
    public sealed class DeltaHttpScanner : ILazyDeltaScanner, IAsyncDisposable
    {
        private readonly HttpClient _client;
        private readonly bool _ownsClient;
        private readonly Uri _server;
        private readonly AuthenticationHeaderValue? _authorization;

        /// <param name="server">The address of the server, such as https://lake.example:8080.</param>
        /// <param name="token">The bearer token, if the server requires one.</param>
        /// <param name="client">Sends the requests, and is not disposed; by default a new one.</param>
        public DeltaHttpScanner(string server, string? token = null, HttpClient? client = null)
        {
            _server = new Uri(server.TrimEnd('/') + "/");
            _ownsClient = client == null;
            _client = client ?? new HttpClient { Timeout = Timeout.InfiniteTimeSpan };
            // Not a default header of the client: it may be the caller's, for other servers too.
            if (token != null) _authorization = new AuthenticationHeaderValue("Bearer", token);
        }

        /// <remarks>The path of a table is the name that the server gives it.</remarks>
        public async IAsyncEnumerable<DeltaFile> ScanFilesAsync(
            string tablePath,
            ScanOptions? options = null,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            var address = Address(tablePath, options ?? new ScanOptions());
            using var response = await SendAsync(address, cancellationToken).ConfigureAwait(false);
            using var body = await response.Content.ReadAsStreamAsync().ConfigureAwait(false);
            // A read that waits for the server ends when the body is closed.
            using var registration = cancellationToken.Register(body.Dispose);
            using var lines = new StreamReader(body, Encoding.UTF8);
            DeltaFile? last = null; // the token after it is on the next line
            while (true)
            {
                var line = await ReadAsync(lines, cancellationToken).ConfigureAwait(false);
                using var document = Parse(line);
                if (document == null)
                {
                    if (last != null) yield return last;
                    cancellationToken.ThrowIfCancellationRequested();
                    throw Lost(null);
                }
                var record = document.RootElement;
                if (record.TryGetProperty("resume", out var token))
                {
                    if (last != null) last.ResumeToken = token.GetString();
                    continue;
                }
                if (last != null) yield return last;
                cancellationToken.ThrowIfCancellationRequested();
                if (record.TryGetProperty("error", out _)) throw ServerError(record);
                if (record.TryGetProperty("end", out _)) yield break;
                last = FileRecord.Read(record);
            }
        }

        /// <summary>The newest schema of a table as JSON of the Delta protocol: with column mapping, the
        /// metadata of a field has its physical name and its id.</summary>
        public async Task<string> ReadSchemaAsync(
            string tablePath, CancellationToken cancellationToken = default)
        {
            using var response = await SendAsync(Table(tablePath), cancellationToken)
                .ConfigureAwait(false);
            try
            {
                var text = await response.Content.ReadAsStringAsync().ConfigureAwait(false);
                using var document = JsonDocument.Parse(text);
                return document.RootElement.GetProperty("schema").GetRawText();
            }
            catch (Exception error) when (IsLoss(error) || error is JsonException)
            {
                throw Lost(error);
            }
        }

        public void Dispose()
        {
            if (_ownsClient) _client.Dispose();
        }

        public ValueTask DisposeAsync()
        {
            Dispose();
            return default;
        }

        private Uri Address(string table, ScanOptions options)
        {
            var query = new StringBuilder();
            void Add(string name, string? value)
            {
                if (value == null) return;
                query.Append(query.Length == 0 ? '?' : '&').Append(name).Append('=');
                query.Append(Uri.EscapeDataString(value));
            }
            Add("strategy", RequestJson.Strategy(options));
            Add("where", RequestJson.Where(options));
            Add("limit", options.Limit?.ToString());
            Add("version", options.Version?.ToString());
            Add("resume", options.Resume);
            if (options.Capabilities.Count > 0)
            {
                Add("capabilities", string.Join(",", options.Capabilities));
                Add("deletion_vectors", RequestJson.DeletionVectors);
            }
            return Table(table, $"/files{query}");
        }

        private Uri Table(string name, string rest = "") =>
            new Uri(_server, $"v1/tables/{Uri.EscapeDataString(name)}{rest}");

        private async Task<HttpResponseMessage> SendAsync(Uri address, CancellationToken cancellation)
        {
            using var request = new HttpRequestMessage(HttpMethod.Get, address);
            request.Headers.Accept.ParseAdd("application/x-ndjson");
            request.Headers.Authorization = _authorization;
            try
            {
                var response = await _client
                    .SendAsync(request, HttpCompletionOption.ResponseHeadersRead, cancellation)
                    .ConfigureAwait(false);
                if (response.IsSuccessStatusCode) return response;
                using (response)
                {
                    var text = await response.Content.ReadAsStringAsync().ConfigureAwait(false);
                    using var document = Parse(text);
                    throw document == null ? Lost(null) : ServerError(document.RootElement);
                }
            }
            catch (Exception error) when (IsLoss(error) && !cancellation.IsCancellationRequested)
            {
                throw Lost(error);
            }
        }

        private static async Task<string?> ReadAsync(StreamReader lines, CancellationToken cancellation)
        {
            try
            {
                return await lines.ReadLineAsync().ConfigureAwait(false);
            }
            catch (Exception error) when (cancellation.IsCancellationRequested)
            {
                throw new OperationCanceledException(error.Message, error, cancellation);
            }
            catch (Exception error) when (IsLoss(error))
            {
                throw Lost(error);
            }
        }

        /// <summary>A cancellation that the caller did not request is the timeout of its client.</summary>
        private static bool IsLoss(Exception error) =>
            error is IOException || error is HttpRequestException || error is OperationCanceledException;

        /// <summary>Parse a line; null at the end of the body, or if the line was cut off.</summary>
        private static JsonDocument? Parse(string? line)
        {
            try
            {
                return line == null ? null : JsonDocument.Parse(line);
            }
            catch (JsonException)
            {
                return null;
            }
        }

        private static LazyDeltaException Lost(Exception? error) => new LazyDeltaException(
            DeltaStatus.Unavailable,
            "ConnectionLostError",
            "the answer of the server ended early: resume from the last token, or scan again",
            error);

        private static LazyDeltaException ServerError(JsonElement document)
        {
            string Text(string name) =>
                document.TryGetProperty(name, out var value) && value.ValueKind == JsonValueKind.String
                    ? value.GetString()
                    : "";
            var code = Text("code").Replace("_", "");
            if (!Enum.TryParse<DeltaStatus>(code, ignoreCase: true, out var status))
                status = DeltaStatus.Unknown;
            return new LazyDeltaException(status, Text("error"), Text("message"));
        }
    }
}
