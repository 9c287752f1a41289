using System;
using System.Globalization;
using System.Numerics;
using System.Runtime.InteropServices;
using System.Text;

namespace LazyDelta
{
    /// <summary>Values of a column of the Arrow C data interface, one at a time.</summary>
    internal unsafe readonly struct Column
    {
        internal static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);
        private static readonly CultureInfo Invariant = CultureInfo.InvariantCulture;
        private readonly ArrowArray* _array;
        private readonly ArrowSchema* _schema;
        private readonly long _offset;

        internal Column(ArrowSchema* schema, ArrowArray* array)
        {
            _array = array;
            _schema = schema;
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
            if (_schema->Format[0] == 'U' || _schema->Format[0] == 'Z')
            {
                var wide = (long*)_array->Buffers[1];
                return (wide[row], wide[row + 1]);
            }
            var offsets = (int*)_array->Buffers[1];
            return (offsets[row], offsets[row + 1]);
        }

        internal string String(long row) => Encoding.UTF8.GetString(Bytes(row));

        private ReadOnlySpan<byte> Bytes(long row)
        {
            var (start, end) = List(row);
            return new ReadOnlySpan<byte>((byte*)_array->Buffers[2] + start, (int)(end - start));
        }

        /// <summary>A value of any type of a partition column, as NDJSON has it.</summary>
        internal string? Text(long row)
        {
            if (IsNull(row)) return null;
            var at = row + _offset;
            var data = _array->Buffers[1];
            switch (Format)
            {
                case "u": case "U": return String(row);
                case "z": case "Z": return Hexadecimal(Bytes(row));
                case "b": return (((byte*)data)[at >> 3] >> (int)(at & 7) & 1) == 1 ? "true" : "false";
                case "c": return ((sbyte*)data)[at].ToString(Invariant);
                case "s": return ((short*)data)[at].ToString(Invariant);
                case "i": return ((int*)data)[at].ToString(Invariant);
                case "l": return ((long*)data)[at].ToString(Invariant);
                case "f": return ((float*)data)[at].ToString("R", Invariant);
                case "g": return ((double*)data)[at].ToString("R", Invariant);
                case "tdD": return Epoch.AddDays(((int*)data)[at]).ToString("yyyy-MM-dd", Invariant);
            }
            if (Format.StartsWith("tsu:", StringComparison.Ordinal))
                return Timestamp(((long*)data)[at], Format.Length > 4 ? "Z" : "");
            if (Format.StartsWith("d:", StringComparison.Ordinal)) return Decimal((byte*)data + 16 * at);
            throw new NotSupportedException($"a partition column of the Arrow type {Format}");
        }

        private string Format => Marshal.PtrToStringUTF8((IntPtr)_schema->Format) ?? "";

        internal static string Hexadecimal(ReadOnlySpan<byte> bytes) =>
            BitConverter.ToString(bytes.ToArray()).Replace("-", "").ToLowerInvariant();

        private static string Timestamp(long microseconds, string zone)
        {
            var time = Epoch.AddTicks(microseconds * 10);
            var form = microseconds % 1000000 == 0 ? "" : microseconds % 1000 == 0 ? ".fff" : ".ffffff";
            return time.ToString("yyyy-MM-ddTHH:mm:ss" + form, Invariant) + zone;
        }

        private string Decimal(byte* bytes)
        {
            var digits = new BigInteger(new ReadOnlySpan<byte>(bytes, 16));
            var scale = int.Parse(Format.Split(',')[1], Invariant);
            var text = BigInteger.Abs(digits).ToString(Invariant).PadLeft(scale + 1, '0');
            if (scale > 0) text = text.Insert(text.Length - scale, ".");
            return digits.Sign < 0 ? "-" + text : text;
        }
    }
}
