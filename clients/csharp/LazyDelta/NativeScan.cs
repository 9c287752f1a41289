using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace LazyDelta
{
    /// <summary>One scan of liblazydelta: blocking reads, on any one thread at a time.</summary>
    internal sealed unsafe class NativeScan : IDisposable
    {
        private readonly IntPtr _stream;
        private readonly IntPtr _schema = Allocate(sizeof(ArrowSchema));
        private readonly object _lock = new object();
        private readonly StreamCallback _getNext;
        private IntPtr _scan; // zero after its release, so that a late cancellation finds nothing
        private bool _hasSchema;

        private NativeScan(IntPtr stream, IntPtr scan)
        {
            _stream = stream;
            _scan = scan;
            _getNext = Function<StreamCallback>(Stream->GetNext);
        }

        private ArrowArrayStream* Stream => (ArrowArrayStream*)_stream;

        private ArrowSchema* Schema => (ArrowSchema*)_schema;

        internal static NativeScan Start(string table, string? storeOptions, ScanOptions options)
        {
            NativeMethods.Check(NativeMethods.delta_open(table, storeOptions, out var handle));
            var stream = Allocate(sizeof(ArrowArrayStream));
            try
            {
                var request = RequestJson.Write(options);
                NativeMethods.Check(NativeMethods.delta_plan(
                    handle, request, (ArrowArrayStream*)stream, out var scan));
                return new NativeScan(stream, scan);
            }
            catch
            {
                Marshal.FreeHGlobal(stream);
                throw;
            }
            finally
            {
                NativeMethods.delta_close(handle);
            }
        }

        /// <summary>Return a value of the schema's metadata: pairs of strings after their number, each
        /// after its length.</summary>
        internal string Metadata(string name)
        {
            ReadSchema();
            var at = Schema->Metadata;
            string Next()
            {
                var length = *(int*)at;
                var text = Encoding.UTF8.GetString(at + sizeof(int), length);
                at += sizeof(int) + length;
                return text;
            }
            var count = *(int*)at;
            at += sizeof(int);
            for (var i = 0; i < count; i++)
            {
                var (key, value) = (Next(), Next());
                if (key == name) return value;
            }
            throw new KeyNotFoundException(name);
        }

        private void ReadSchema()
        {
            if (!_hasSchema) Check(Function<StreamCallback>(Stream->GetSchema)(Stream, Schema));
            _hasSchema = true;
        }

        /// <summary>Return the next batch; null at the end.</summary>
        internal FileBatch? Next()
        {
            ReadSchema();
            var memory = Allocate(sizeof(ArrowArray));
            try
            {
                Check(_getNext(Stream, (void*)memory));
                if (((ArrowArray*)memory)->Release == IntPtr.Zero)
                {
                    Marshal.FreeHGlobal(memory);
                    return null;
                }
            }
            catch
            {
                Marshal.FreeHGlobal(memory);
                throw;
            }
            var token = Marshal.PtrToStringUTF8(NativeMethods.delta_resume_token(_scan));
            return new FileBatch(Schema, memory, token);
        }

        /// <summary>Stop from any thread: a read that waits fails at once.</summary>
        internal void Cancel()
        {
            lock (_lock)
            {
                if (_scan != IntPtr.Zero) NativeMethods.delta_cancel(_scan);
            }
        }

        public void Dispose()
        {
            lock (_lock)
            {
                if (_scan == IntPtr.Zero) return;
                Function<ReleaseCallback>(Stream->Release)(Stream);
                if (_hasSchema) Function<ReleaseCallback>(Schema->Release)(Schema);
                NativeMethods.delta_scan_release(_scan);
                _scan = IntPtr.Zero;
            }
            Marshal.FreeHGlobal(_stream);
            Marshal.FreeHGlobal(_schema);
        }

        private static IntPtr Allocate(int size)
        {
            var memory = Marshal.AllocHGlobal(size);
            new Span<byte>((void*)memory, size).Clear();
            return memory;
        }

        private static T Function<T>(IntPtr address) where T : Delegate =>
            Marshal.GetDelegateForFunctionPointer<T>(address);

        private void Check(int errno)
        {
            if (errno == 0) return;
            NativeMethods.Check(NativeMethods.delta_scan_status(_scan));
            throw new LazyDeltaException(DeltaStatus.Internal, "ArrowError", $"errno {errno}");
        }
    }
}
