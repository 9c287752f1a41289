from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lazydelta._arrow import from_mask, from_numpy, string_scalar


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_from_numpy_keeps_values(values):
    assert from_numpy(np.array(values, np.int64)).to_pylist() == values


def test_from_numpy_of_other_widths_and_strides():
    assert from_numpy(np.arange(6, dtype=np.int32)).type == pa.int32()
    assert from_numpy(np.arange(10)[::3]).to_pylist() == [0, 3, 6, 9]
    assert from_numpy(np.array([2**64 - 1], np.uint64)).to_pylist() == [2**64 - 1]


@given(st.lists(st.booleans()))
def test_from_mask_keeps_values(values):
    assert from_mask(np.array(values, np.bool_)).to_pylist() == values


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_string_scalar_keeps_its_value(value):
    assert string_scalar(value).as_py() == value


def test_a_scan_does_not_import_pandas(tmp_path):
    program = """
import sys
from lazydelta import Config, Table
from tests.builders import TableBuilder
TableBuilder(sys.argv[1]).commit("+a +b#v1").checkpoint().hint().commit("-a +c").crc()
for name in [n for n in sys.modules if n.split(".")[0] == "pandas"]:
    del sys.modules[name]
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    program = """
import sys
from lazydelta import Table
scan = Table.open(sys.argv[1]).scan()
with scan.file_batches(limit=1) as batches:
    assert next(batches).num_rows == 1
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"
