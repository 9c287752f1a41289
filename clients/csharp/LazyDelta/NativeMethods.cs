using System;
using System.Runtime.InteropServices;

namespace LazyDelta
{
    /// <summary>liblazydelta, as in capi/lazydelta.h.</summary>
    internal static unsafe class NativeMethods
    {
        private const string Library = "lazydelta";

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern int delta_open(
            [MarshalAs(UnmanagedType.LPUTF8Str)] string tablePath,
            [MarshalAs(UnmanagedType.LPUTF8Str)] string? optionsJson,
            out IntPtr table);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern void delta_close(IntPtr table);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern int delta_plan(
            IntPtr table,
            [MarshalAs(UnmanagedType.LPUTF8Str)] string requestJson,
            ArrowArrayStream* stream,
            out IntPtr scan);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern int delta_scan_status(IntPtr scan);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern IntPtr delta_resume_token(IntPtr scan);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern void delta_cancel(IntPtr scan);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern void delta_scan_release(IntPtr scan);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern IntPtr delta_last_error();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]
        internal static extern IntPtr delta_last_error_type();

        /// <summary>Throw the last error of this thread, if a call on it returned a status.</summary>
        internal static void Check(int status)
        {
            if (status >= 0) return;
            throw new LazyDeltaException(
                (DeltaStatus)(-status),
                Marshal.PtrToStringUTF8(delta_last_error_type()) ?? "",
                Marshal.PtrToStringUTF8(delta_last_error()) ?? "");
        }
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct ArrowSchema
    {
        internal byte* Format;
        internal byte* Name;
        internal byte* Metadata;
        internal long Flags;
        internal long ChildCount;
        internal ArrowSchema** Children;
        internal ArrowSchema* Dictionary;
        internal IntPtr Release;
        internal IntPtr PrivateData;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct ArrowArray
    {
        internal long Length;
        internal long NullCount;
        internal long Offset;
        internal long BufferCount;
        internal long ChildCount;
        internal void** Buffers;
        internal ArrowArray** Children;
        internal ArrowArray* Dictionary;
        internal IntPtr Release;
        internal IntPtr PrivateData;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct ArrowArrayStream
    {
        internal IntPtr GetSchema;
        internal IntPtr GetNext;
        internal IntPtr GetLastError;
        internal IntPtr Release;
        internal IntPtr PrivateData;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int StreamCallback(ArrowArrayStream* stream, void* result);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void ReleaseCallback(void* structure);
}
