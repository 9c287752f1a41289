using System.IO;
using System.Linq;
using System.Text;
using System.Text.Json;

namespace LazyDelta
{
    /// <summary>Options as the request that every door of lazydelta takes.</summary>
    internal static class RequestJson
    {
        /// <summary>Row ranges are the form of a deletion vector that needs no decoder.</summary>
        internal const string DeletionVectors = "ranges";

        internal static readonly string[] EveryCapability =
        {
            "columnMapping", "deletionVectors", "typeWidening", "variantType",
        };

        internal static string Write(ScanOptions options, string? table = null)
        {
            using var stream = new MemoryStream();
            using (var json = new Utf8JsonWriter(stream))
            {
                json.WriteStartObject();
                if (table != null)
                {
                    json.WriteString("table", table);
                    json.WriteString("mode", "files");
                }
                if (Where(options) is { } where) json.WriteString("where", where);
                if (options.Limit is { } limit) json.WriteNumber("limit", limit);
                if (options.Version is { } version) json.WriteNumber("version", version);
                if (options.Resume is { } resume) json.WriteString("resume", resume);
                json.WriteString("strategy", Strategy(options));
                if (options.Capabilities.Any())
                {
                    json.WriteStartArray("capabilities");
                    foreach (var name in options.Capabilities) json.WriteStringValue(name);
                    json.WriteEndArray();
                    json.WriteString("deletion_vectors", DeletionVectors);
                }
                json.WriteEndObject();
            }
            return Encoding.UTF8.GetString(stream.ToArray());
        }

        internal static string Strategy(ScanOptions options) =>
            options.Strategy.ToString().ToLowerInvariant();

        /// <summary>The predicate as SQL, or as the JSON of an object or list.</summary>
        internal static string? Where(ScanOptions options)
        {
            if (string.IsNullOrWhiteSpace(options.PredicateJson)) return null;
            try
            {
                using var document = JsonDocument.Parse(options.PredicateJson);
                var root = document.RootElement;
                return root.ValueKind == JsonValueKind.String ? root.GetString() : root.GetRawText();
            }
            catch (JsonException error)
            {
                throw new LazyDeltaException(
                    DeltaStatus.InvalidArgument,
                    "PredicateError",
                    $"PredicateJson is not JSON: {error.Message}",
                    error);
            }
        }
    }
}
