using System;
using System.Collections.Generic;
using System.Text.Json;

namespace LazyDelta
{
    /// <summary>A file record of NDJSON.</summary>
    internal static class FileRecord
    {
        internal static DeltaFile Read(JsonElement record)
        {
            DateTime? time = null;
            if (Has(record, "modification_time", out var written) && written.TryGetDateTime(out var at))
                time = DateTime.SpecifyKind(at.ToUniversalTime(), DateTimeKind.Utc);
            return new DeltaFile(
                record.GetProperty("uri").GetString(),
                record.GetProperty("size").GetInt64(),
                Partition(record),
                time)
            {
                Version = Number(record, "version"),
                LiveRows = Number(record, "live_rows"),
                DeletedRows = Ranges(record),
            };
        }

        private static long? Number(JsonElement record, string name) =>
            Has(record, name, out var value) ? value.GetInt64() : (long?)null;

        private static List<(long Start, long End)>? Ranges(JsonElement record)
        {
            if (!Has(record, "deleted_ranges", out var given)) return null;
            var ranges = new List<(long, long)>(given.GetArrayLength());
            foreach (var range in given.EnumerateArray())
                ranges.Add((range.GetProperty("start").GetInt64(), range.GetProperty("end").GetInt64()));
            return ranges;
        }

        private static bool Has(JsonElement record, string name, out JsonElement value) =>
            record.TryGetProperty(name, out value) && value.ValueKind != JsonValueKind.Null;

        private static Dictionary<string, string?>? Partition(JsonElement record)
        {
            if (!Has(record, "partition_values", out var given)) return null;
            var values = new Dictionary<string, string?>();
            foreach (var item in given.EnumerateObject())
                values[item.Name] = Text(item.Value);
            return values;
        }

        private static string? Text(JsonElement value) => value.ValueKind switch
        {
            JsonValueKind.Null => null,
            JsonValueKind.String => value.GetString(),
            _ => value.GetRawText(),
        };
    }
}
