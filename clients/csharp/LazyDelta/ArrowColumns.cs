using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace LazyDelta
{
    /// <summary>Values of a column of the Arrow C data interface, one at a time.</summary>
    internal unsafe readonly struct Column
    {
        private readonly ArrowArray* _array;
        private readonly byte _format;
        private readonly long _offset;

        internal Column(ArrowSchema* schema, ArrowArray* array)
        {
            _array = array;
            _format = array == null ? (byte)0 : schema->Format[0];
            _offset = array == null ? 0 : array->Offset;
        }

        internal bool IsNull(long row)
        {
            if (_array == null) return true;
            if (_array->NullCount == 0 || _array->Buffers[0] == null) return false;
            row += _offset;
            return (((byte*)_array->Buffers[0])[row >> 3] >> (int)(row & 7) & 1) == 0;
        }

        internal long Int64(long row) => ((long*)_array->Buffers[1])[row + _offset];

        /// <summary>Where the list of a row begins and ends in its child.</summary>
        internal (long Start, long End) List(long row)
        {
            row += _offset;
            if (_format == 'U' || _format == 'Z')
            {
                var wide = (long*)_array->Buffers[1];
                return (wide[row], wide[row + 1]);
            }
            var offsets = (int*)_array->Buffers[1];
            return (offsets[row], offsets[row + 1]);
        }

        internal string String(long row)
        {
            var (start, end) = List(row);
            return Encoding.UTF8.GetString((byte*)_array->Buffers[2] + start, (int)(end - start));
        }
    }

    /// <summary>The files of one batch. The batch is released with this.</summary>
    internal sealed unsafe class FileBatch : IDisposable
    {
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

        private readonly IntPtr _memory;
        private readonly string? _token;
        private readonly Column _path;
        private readonly Column _size;
        private readonly Column _time;
        private readonly Column _values;
        private readonly Column _keys;
        private readonly Column _items;
        private readonly Dictionary<string, string> _names = new Dictionary<string, string>();

        internal FileBatch(ArrowSchema* schema, IntPtr memory, string? token)
        {
            _memory = memory;
            _token = token;
            var batch = (ArrowArray*)memory;
            Count = batch->Length;
            for (long i = 0; i < schema->ChildCount; i++)
            {
                var type = schema->Children[i];
                var column = new Column(type, batch->Children[i]);
                switch (Marshal.PtrToStringUTF8((IntPtr)type->Name))
                {
                    case "path": _path = column; break;
                    case "size": _size = column; break;
                    case "modification_time": _time = column; break;
                    case "partition_values":
                        _values = column;
                        var entries = batch->Children[i]->Children[0];
                        _keys = new Column(type->Children[0]->Children[0], entries->Children[0]);
                        _items = new Column(type->Children[0]->Children[1], entries->Children[1]);
                        break;
                }
            }
        }

        internal long Count { get; }

        internal DeltaFile this[long row]
        {
            get
            {
                DateTime? time = _time.IsNull(row) ? (DateTime?)null : Time(_time.Int64(row));
                var file = new DeltaFile(_path.String(row), _size.Int64(row), Partition(row), time);
                if (row == Count - 1) file.ResumeToken = _token;
                return file;
            }
        }

        public void Dispose()
        {
            var batch = (ArrowArray*)_memory;
            if (batch->Release != IntPtr.Zero)
                Marshal.GetDelegateForFunctionPointer<ReleaseCallback>(batch->Release)(batch);
            Marshal.FreeHGlobal(_memory);
        }

        private static DateTime? Time(long milliseconds)
        {
            const long Last = 253402300799999; // of the year 9999
            return milliseconds < -62135596800000 || milliseconds > Last
                ? (DateTime?)null
                : Epoch.AddMilliseconds(milliseconds);
        }

        private Dictionary<string, string?>? Partition(long row)
        {
            if (_values.IsNull(row)) return null;
            var (start, end) = _values.List(row);
            var values = new Dictionary<string, string?>((int)(end - start));
            for (var entry = start; entry < end; entry++)
                values[Name(entry)] = _items.IsNull(entry) ? null : _items.String(entry);
            return values;
        }

        /// <summary>A column name, as the same string for all files of a batch.</summary>
        private string Name(long entry)
        {
            var name = _keys.String(entry);
            if (_names.TryGetValue(name, out var known)) return known;
            return _names[name] = name;
        }
    }
}
