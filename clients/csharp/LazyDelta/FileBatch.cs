using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace LazyDelta
{
    /// <summary>The files of one batch. The batch is released with this.</summary>
    internal sealed unsafe class FileBatch : IDisposable
    {
        private readonly IntPtr _memory;
        private readonly string? _token;
        private readonly Column _path;
        private readonly Column _size;
        private readonly Column _time;
        private readonly Column _version;
        private readonly Column _liveRows;
        private readonly Column _ranges;
        private readonly Column _rangeStarts;
        private readonly Column _rangeEnds;
        private readonly string[] _partitionNames = new string[0];
        private readonly Column[] _partitionValues = new Column[0];

        internal FileBatch(ArrowSchema* schema, IntPtr memory, string? token)
        {
            _memory = memory;
            _token = token;
            var batch = (ArrowArray*)memory;
            Count = batch->Length;
            for (long i = 0; i < schema->ChildCount; i++)
            {
                var type = schema->Children[i];
                var array = batch->Children[i];
                var column = new Column(type, array);
                switch (Name(type))
                {
                    case "uri": _path = column; break;
                    case "size": _size = column; break;
                    case "modification_time": _time = column; break;
                    case "version": _version = column; break;
                    case "live_rows": _liveRows = column; break;
                    case "partition_values":
                        (_partitionNames, _partitionValues) = Children(type, array);
                        break;
                    case "deleted_ranges":
                        _ranges = column;
                        var (_, ends) = Children(type->Children[0], array->Children[0]);
                        (_rangeStarts, _rangeEnds) = (ends[0], ends[1]);
                        break;
                }
            }
        }

        internal long Count { get; }

        internal DeltaFile this[long row] =>
            new DeltaFile(_path.String(row), _size.Int64(row), Partition(row), Time(row))
            {
                Version = Number(_version, row),
                LiveRows = Number(_liveRows, row),
                DeletedRows = Ranges(row),
                ResumeToken = row == Count - 1 ? _token : null,
            };

        public void Dispose()
        {
            var batch = (ArrowArray*)_memory;
            Marshal.GetDelegateForFunctionPointer<ReleaseCallback>(batch->Release)(batch);
            Marshal.FreeHGlobal(_memory);
        }

        private static string Name(ArrowSchema* type) =>
            Marshal.PtrToStringUTF8((IntPtr)type->Name) ?? "";

        private static (string[], Column[]) Children(ArrowSchema* type, ArrowArray* array)
        {
            var names = new string[type->ChildCount];
            var columns = new Column[type->ChildCount];
            for (var i = 0; i < names.Length; i++)
            {
                names[i] = Name(type->Children[i]);
                columns[i] = new Column(type->Children[i], array->Children[i]);
            }
            return (names, columns);
        }

        private static long? Number(in Column column, long row) =>
            column.IsNull(row) ? (long?)null : column.Int64(row);

        private DateTime? Time(long row)
        {
            const long First = -62135596800000, Last = 253402300799999; // of the years 1 and 9999
            if (_time.IsNull(row)) return null;
            var milliseconds = _time.Int64(row);
            if (milliseconds < First || milliseconds > Last) return null;
            return Column.Epoch.AddTicks(milliseconds * TimeSpan.TicksPerMillisecond);
        }

        private Dictionary<string, string?>? Partition(long row)
        {
            if (_partitionNames.Length == 0) return null;
            var values = new Dictionary<string, string?>(_partitionNames.Length);
            for (var i = 0; i < _partitionNames.Length; i++)
                values[_partitionNames[i]] = _partitionValues[i].Text(row);
            return values;
        }

        private List<(long Start, long End)>? Ranges(long row)
        {
            if (_ranges.IsNull(row)) return null;
            var (first, last) = _ranges.List(row);
            var ranges = new List<(long, long)>((int)(last - first));
            for (var i = first; i < last; i++)
                ranges.Add((_rangeStarts.Int64(i), _rangeEnds.Int64(i)));
            return ranges;
        }
    }
}
