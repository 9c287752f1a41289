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
                record.GetProperty("path").GetString(),
                record.GetProperty("size").GetInt64(),
                Partition(record),
                time);
        }

        private static bool Has(JsonElement record, string name, out JsonElement value) =>
            record.TryGetProperty(name, out value) && value.ValueKind != JsonValueKind.Null;

        private static Dictionary<string, string?>? Partition(JsonElement record)
        {
            if (!Has(record, "partition_values", out var given)) return null;
            var values = new Dictionary<string, string?>();
            foreach (var item in given.EnumerateObject())
                values[item.Name] =
                    item.Value.ValueKind == JsonValueKind.Null ? null : item.Value.ToString();
            return values;
        }
    }
}
