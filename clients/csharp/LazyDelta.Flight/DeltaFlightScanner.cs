using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Apache.Arrow;
using Apache.Arrow.Flight;
using Apache.Arrow.Flight.Client;
using Google.Protobuf;
using Grpc.Core;
using Grpc.Net.Client;

namespace LazyDelta.Flight
{
    /// <summary>Scans with a server, `lazydelta serve`, over Arrow Flight.</summary>
    public sealed class DeltaFlightScanner : ILazyDeltaScanner, IAsyncDisposable
    {
        private readonly GrpcChannel _channel;
        private readonly FlightClient _client;
        private readonly Metadata _headers = new Metadata();

        /// <param name="server">The address of the server, such as http://delta-server:50051.</param>
        /// <param name="token">The bearer token, if the server requires one.</param>
        public DeltaFlightScanner(string server, string? token = null)
        {
            _channel = GrpcChannel.ForAddress(
                server, new GrpcChannelOptions { MaxReceiveMessageSize = null });
            _client = new FlightClient(_channel);
            if (token != null) _headers.Add("authorization", $"Bearer {token}");
        }

        /// <remarks>The path of a table is the name that the server gives it. The endpoints of the plan
        /// are read one after the other.</remarks>
        public async IAsyncEnumerable<DeltaFile> ScanFilesAsync(
            string tablePath,
            ScanOptions? options = null,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            var command = RequestJson.Write(options ?? new ScanOptions(), tablePath);
            var info = await InfoAsync(command, cancellationToken).ConfigureAwait(false);
            foreach (var endpoint in info.Endpoints)
            {
                using var call = _client.GetStream(
                    endpoint.Ticket, _headers, null, cancellationToken);
                var stream = call.ResponseStream;
                while (await NextAsync(stream, cancellationToken).ConfigureAwait(false))
                {
                    using var batch = stream.Current;
                    var files = new FlightBatch(batch, Token(stream.ApplicationMetadata));
                    for (var row = 0; row < batch.Length; row++) yield return files[row];
                }
            }
        }

        public void Dispose() => _channel.Dispose();

        public ValueTask DisposeAsync()
        {
            Dispose();
            return default;
        }

        private async Task<FlightInfo> InfoAsync(string command, CancellationToken cancellation)
        {
            var descriptor = FlightDescriptor.CreateCommandDescriptor(Encoding.UTF8.GetBytes(command));
            try
            {
                using var call = _client.GetInfo(descriptor, _headers, null, cancellation);
                return await call.ResponseAsync.ConfigureAwait(false);
            }
            catch (RpcException error)
            {
                throw Failure(error, cancellation);
            }
        }

        private static async Task<bool> NextAsync(
            FlightRecordBatchStreamReader stream, CancellationToken cancellation)
        {
            try
            {
                return await stream.MoveNext(cancellation).ConfigureAwait(false);
            }
            catch (RpcException error)
            {
                throw Failure(error, cancellation);
            }
        }

        private static string? Token(IReadOnlyList<ByteString>? metadata)
        {
            if (metadata == null || metadata.Count == 0) return null;
            using var document = JsonDocument.Parse(metadata.Last().Memory);
            return document.RootElement.TryGetProperty("resume", out var token)
                ? token.GetString()
                : null;
        }

        private static Exception Failure(RpcException error, CancellationToken cancellation)
        {
            if (cancellation.IsCancellationRequested)
                return new OperationCanceledException(error.Message, error, cancellation);
            return new LazyDeltaException(Status(error), "RpcException", error.Status.Detail, error);
        }

        /// <summary>The server can send some codes of gRPC only; its message begins with the exact
        /// one, as in "NOT_FOUND: ...".</summary>
        private static DeltaStatus Status(RpcException error)
        {
            var name = error.Status.Detail.Split(':')[0].Replace("_", "");
            return Enum.TryParse<DeltaStatus>(name, ignoreCase: true, out var status)
                && Enum.IsDefined(typeof(DeltaStatus), status)
                ? status
                : (DeltaStatus)(int)error.StatusCode;
        }
    }
}
