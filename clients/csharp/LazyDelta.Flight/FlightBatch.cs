using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using Apache.Arrow;
using Apache.Arrow.Types;

namespace LazyDelta.Flight
{
    /// <summary>The files of a record batch.</summary>
    internal sealed class FlightBatch
    {
        private readonly RecordBatch _batch;
        private readonly string? _token;
        private readonly StringArray _paths;
        private readonly Int64Array _sizes;
        private readonly TimestampArray? _times;
        private readonly Int64Array? _versions;
        private readonly Int64Array? _liveRows;
        private readonly StructArray? _partitions;
        private readonly ListArray? _ranges;

        internal FlightBatch(RecordBatch batch, string? token)
        {
            _batch = batch;
            _token = token;
            _paths = (StringArray)batch.Column("uri");
            _sizes = (Int64Array)batch.Column("size");
            _times = Find<TimestampArray>("modification_time");
            _versions = Find<Int64Array>("version");
            _liveRows = Find<Int64Array>("live_rows");
            _partitions = Find<StructArray>("partition_values");
            _ranges = Find<ListArray>("deleted_ranges");
        }

        internal DeltaFile this[int row] =>
            new DeltaFile(
                _paths.GetString(row),
                _sizes.GetValue(row) ?? 0,
                Partition(row),
                _times?.GetTimestamp(row)?.UtcDateTime)
            {
                Version = _versions?.GetValue(row),
                LiveRows = _liveRows?.GetValue(row),
                DeletedRows = Ranges(row),
                ResumeToken = row == _batch.Length - 1 ? _token : null,
            };

        private T? Find<T>(string name) where T : class, IArrowArray =>
            _batch.Schema.FieldsLookup.Contains(name) ? (T)_batch.Column(name) : null;

        private Dictionary<string, string?>? Partition(int row)
        {
            if (_partitions == null) return null;
            var fields = ((StructType)_partitions.Data.DataType).Fields;
            return fields
                .Select((field, index) => (field.Name, Value: Text(_partitions.Fields[index], row)))
                .ToDictionary(item => item.Name, item => item.Value);
        }

        /// <summary>A value as NDJSON has it.</summary>
        private static string? Text(IArrowArray array, int row)
        {
            if (array.IsNull(row)) return null;
            var invariant = CultureInfo.InvariantCulture;
            return array switch
            {
                StringArray values => values.GetString(row),
                BinaryArray values => Column.Hexadecimal(values.GetBytes(row)),
                BooleanArray values => values.GetValue(row) == true ? "true" : "false",
                Int8Array values => values.GetValue(row)?.ToString(invariant),
                Int16Array values => values.GetValue(row)?.ToString(invariant),
                Int32Array values => values.GetValue(row)?.ToString(invariant),
                Int64Array values => values.GetValue(row)?.ToString(invariant),
                FloatArray values => values.GetValue(row)?.ToString("R", invariant),
                DoubleArray values => values.GetValue(row)?.ToString("R", invariant),
                Date32Array values => values.GetDateTime(row)?.ToString("yyyy-MM-dd", invariant),
                Decimal128Array values => values.GetString(row),
                TimestampArray values => Timestamp(values, row),
                _ => throw new NotSupportedException(
                    $"a partition column of the Arrow type {array.Data.DataType.Name}"),
            };
        }

        private static string? Timestamp(TimestampArray values, int row)
        {
            if (!(values.GetTimestamp(row) is { } time)) return null;
            var microseconds = time.Ticks / 10;
            var form = microseconds % 1000000 == 0 ? "" : microseconds % 1000 == 0 ? ".fff" : ".ffffff";
            var zone = ((TimestampType)values.Data.DataType).Timezone == null ? "" : "Z";
            return time.UtcDateTime.ToString(
                "yyyy-MM-ddTHH:mm:ss" + form, CultureInfo.InvariantCulture) + zone;
        }

        private IReadOnlyList<(long Start, long End)>? Ranges(int row)
        {
            if (_ranges == null || _ranges.IsNull(row)) return null;
            var fields = ((StructArray)_ranges.Values).Fields;
            var (starts, ends) = ((Int64Array)fields[0], (Int64Array)fields[1]);
            return Enumerable.Range(_ranges.ValueOffsets[row], _ranges.GetValueLength(row))
                .Select(index => (starts.GetValue(index) ?? 0, ends.GetValue(index) ?? 0))
                .ToList();
        }
    }
}
