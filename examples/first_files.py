"""The newest files of a table, without waiting for the rest.

python examples/first_files.py [URL]
"""

from __future__ import annotations

import sys

from sample_table import table_to_show

import lazydelta as ld

with table_to_show(sys.argv) as url:
    scan = ld.Table.open(url).scan()
    for file in scan.files(limit=3):
        print(f"version {file.version}: {file.path}, {file.size:,} bytes")

    # The newest commits have enough files, so the checkpoint is not read.
    print("checkpoint bytes read:", scan.explain()["checkpoint"]["bytes"])
