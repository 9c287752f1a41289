"""Files that Spark writes in its legacy calendar: we read the rows that Spark reads."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lazydelta import Table
from tests.unit.scan.read.tables import Rows, field

KINDS = ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"]
DAY = 86_400
STRUCT = {"type": "struct", "fields": [field("d", "date"), field("t", "timestamp")]}
FIELDS = [
    field("k", "long"), field("d", "date"), field("t", "timestamp"), field("n", "timestamp_ntz"),
    field("s", STRUCT),
    field("l", {"type": "array", "elementType": "date", "containsNull": True}),
    field("m", {"type": "map", "keyType": "date", "valueType": "timestamp",
                "valueContainsNull": True}),
]  # fmt: skip


def seconds():
    """Return timestamps around centuries, the calendar switch and clock changes."""
    found = {0, 253_402_300_799, -2_208_988_800, -2_208_988_801}
    for century in [1, *range(100, 1600, 100)]:
        start = (date(century, 2, 26) - date(1970, 1, 1)).days
        found |= {(start + day) * DAY for day in range(16)}
    found |= {-141_440 * DAY + hour * 3 * 3600 for hour in range(8 * 20)}
    found |= {year * 31_556_952 + 17 for year in range(-170, -20)}
    return sorted(found)


@pytest.fixture
def session(spark):
    """A session with its own settings."""
    return spark.newSession()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_what_spark_reads(session, tmp_path, kind):
    settings = {
        "session.timeZone": "UTC",
        "parquet.outputTimestampType": kind,
        "parquet.datetimeRebaseModeInWrite": "LEGACY",
        "parquet.int96RebaseModeInWrite": "LEGACY",
    }
    for name, value in settings.items():
        session.conf.set(f"spark.sql.{name}", value)
    rows = [(at, second * 1_000_000 + 123_456) for at, second in enumerate(seconds())]
    day = f"date_from_unix_date(cast(floor(u / {DAY}e6) as int))"
    time = "timestamp_micros(u)"
    session.createDataFrame(rows, "k long, u long").selectExpr(
        "k", f"{day} d", f"{time} t", f"cast({time} as timestamp_ntz) n",
        f"named_struct('d', {day}, 't', {time}) s", f"array({day}, null) l", f"map({day}, {time}) m",
    ).coalesce(1).write.parquet(str(tmp_path / "t"))  # fmt: skip
    session.conf.set("spark.sql.session.timeZone", "UTC")
    read = session.read.parquet(str(tmp_path / "t")).selectExpr(
        "k", "unix_date(d) d", "unix_micros(t) t", "unix_micros(cast(n as timestamp)) n",
        "unix_date(s.d) sd", "unix_micros(s.t) st", "unix_date(l[0]) l",
        "unix_date(map_keys(m)[0]) mk", "unix_micros(map_values(m)[0]) mv",
    )  # fmt: skip
    expected = [tuple(row) for row in read.orderBy("k").collect()]
    assert table_of(tmp_path / "t") == expected
    stored = pq.read_table(next((tmp_path / "t").glob("*.parquet")))
    as_stored = stored["d"].cast(pa.int32()).to_pylist()
    assert as_stored != [row[1] for row in expected], "it was written in the other calendar"


def table_of(path):
    """Write a log for the files of a directory, and return its rows as integers."""
    files = list(path.glob("*.parquet"))
    made = Rows(path, FIELDS, features=["timestampNtz"])
    for file in files:
        add = {"path": file.name, "size": file.stat().st_size, "partitionValues": {}}
        made.actions.append({"add": add | {"modificationTime": 0, "dataChange": True}})
    made.commit()
    rows = Table.open(path).to_arrow().sort_by("k").combine_chunks()
    pairs = rows["m"].combine_chunks()
    columns = [
        rows["k"], rows["d"], rows["t"], rows["n"], pc.struct_field(rows["s"], "d"),
        pc.struct_field(rows["s"], "t"), pc.list_element(rows["l"], 0), pairs.keys, pairs.items,
    ]  # fmt: skip
    plain = [pa.int32() if pa.types.is_date(column.type) else pa.int64() for column in columns]
    numbers = [c.cast(kind).to_pylist() for c, kind in zip(columns, plain, strict=True)]
    return list(zip(*numbers, strict=True))
