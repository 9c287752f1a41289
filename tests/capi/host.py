"""The C library in this process; pyarrow imports its streams."""

from __future__ import annotations

import ctypes
import json
from contextlib import contextmanager

import pyarrow as pa
import pytest

from tests.capi.compiler import HOST, shared_library

_STREAM_BYTES = 5 * 8  # struct ArrowArrayStream


@contextmanager
def running_host(**environment):
    """Yield the library; its workers end with the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (HOST | environment).items():
            patch.setenv(name, value)
        host = Host()
        yield host
        host.close()


class Host:
    """The library in this process."""

    def __init__(self):
        self._library = ctypes.CDLL(str(shared_library()))
        self._library.delta_last_error.restype = ctypes.c_char_p
        self._library.delta_last_error_type.restype = ctypes.c_char_p
        self._library.delta_resume_token.restype = ctypes.c_char_p
        self._library.delta_resume_token.argtypes = [ctypes.c_void_p]
        self._library.delta_scan_status.argtypes = [ctypes.c_void_p]
        self._library.delta_scan_release.argtypes = [ctypes.c_void_p]
        self._library.delta_close.argtypes = [ctypes.c_void_p]

    def batches(self, table, **request):
        """Yield batches with their tokens."""
        handle, scan = ctypes.c_void_p(), ctypes.c_void_p()
        stream = ctypes.create_string_buffer(_STREAM_BYTES)
        self._check(self._library.delta_open(str(table).encode(), None, ctypes.byref(handle)))
        text = json.dumps(request).encode()
        self._check(self._library.delta_plan(handle, text, stream, ctypes.byref(scan)))
        self._library.delta_close(handle)
        try:
            with pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)) as reader:
                for batch in reader:
                    yield batch, self._library.delta_resume_token(scan).decode()
        finally:
            self._library.delta_scan_release(scan)

    def table(self, table, **request):
        return pa.Table.from_batches([batch for batch, _ in self.batches(table, **request)])

    def _check(self, status):
        if status < 0:
            raise OSError(status, self._library.delta_last_error().decode())

    @property
    def error_type(self):
        """The class of the last error of this thread."""
        return self._library.delta_last_error_type().decode()

    def close(self):
        self._library.delta_shutdown()
