"""Prints the rows of Parquet files, in order, as lines of JSON: the decoder of the stand-in.

Takes the options of the store as an argument, and the URIs of files on standard input. Knows nothing
of Delta Lake: it prints deleted rows too.
"""

from __future__ import annotations

import io
import json
import sys

import pyarrow.parquet as pq

from lazydelta.store import open_store


def main():
    options = json.loads(sys.argv[1])
    for line in sys.stdin:
        folder, _, name = line.strip().rpartition("/")
        data = open_store(folder, options).read(name)
        for row in pq.ParquetFile(io.BytesIO(bytes(data))).read().to_pylist():
            sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
