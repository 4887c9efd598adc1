"""Files of every format: written by others and read by us, written by us and read by others.

usage: files.py PROGRAM [SEED] [all]

PROGRAM is the fluvial program; with `all` it has the features avro and orc. The others are pyarrow (Parquet,
ORC), fastavro, and Python's own modules csv and json. The data is random: nulls, nesting, quotes,
line ends, all of Unicode, the ends of every number, times of years 1 to 9999. Run by
`cargo xtask peers files`.
"""

import base64
import csv
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

ROWS = 500
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICRO = timedelta(microseconds=1)

# Name, type in SQL, type in Arrow.
FLAT = [
    ("id", "BIGINT", pa.int64()),
    ("b", "BOOLEAN", pa.bool_()),
    ("i", "INT", pa.int32()),
    ("l", "BIGINT", pa.int64()),
    ("f", "FLOAT", pa.float32()),
    ("d", "DOUBLE", pa.float64()),
    ("s", "STRING", pa.string()),
    ("dt", "DATE", pa.date32()),
    ("ts", "TIMESTAMP", pa.timestamp("us", tz="UTC")),
]
DECIMAL = [("dec", "DECIMAL(20, 4)", pa.decimal128(20, 4))]
BINARY = [("bin", "BINARY", pa.binary())]
PAIR = pa.struct([("x", pa.int32()), ("y", pa.string())])
NESTED = [
    ("arr", "ARRAY<BIGINT>", pa.list_(pa.int64())),
    ("st", "STRUCT<x: INT, y: STRING>", PAIR),
    ("m", "MAP<STRING, BIGINT>", pa.map_(pa.string(), pa.int64())),
    ("deep", "ARRAY<STRUCT<x: INT, y: STRING>>", pa.list_(PAIR)),
]
# What each format has; of ORC our writer has fewer types than our reader.
READ = {
    "json": FLAT + DECIMAL + BINARY + NESTED,
    "csv": FLAT + DECIMAL,
    "parquet": FLAT + DECIMAL + BINARY + NESTED,
    "orc": FLAT + DECIMAL + BINARY + NESTED,
    "avro": FLAT + DECIMAL + BINARY + NESTED,
    "text": [("value", "STRING", pa.string())],
}
WRITTEN = {**READ, "orc": FLAT + BINARY}
READER = {"csv": ", multiLine => true, escape => '', header => true, positiveInf => 'inf', negativeInf => '-inf', nanValue => 'nan'"}
WRITER = {"csv": "'header' = 'true', ", "avro": "'compression' = 'deflate', "}


class Random(random.Random):
    """Values that are likely to go wrong."""

    def value(self, kind):
        if self.random() < 0.15:
            return None
        if pa.types.is_list(kind):
            return [self.value(kind.value_type) for _ in range(self.randrange(4))]
        if pa.types.is_map(kind):
            return [(f"k{n}{self.text()}", self.value(kind.item_type)) for n in range(self.randrange(3))]
        if pa.types.is_struct(kind):
            return {field.name: self.value(field.type) for field in kind}
        if pa.types.is_boolean(kind):
            return self.random() < 0.5
        if pa.types.is_int32(kind) or pa.types.is_int64(kind):
            end = 1 << (31 if pa.types.is_int32(kind) else 63)
            return self.choice([-end, end - 1, 0, -1, self.randrange(-end, end), self.randrange(-9, 10)])
        if pa.types.is_floating(kind):
            value = self.choice([0.0, -0.0, 1e-300, 1.5, -2.25, 0.1, float("inf"), float("-inf"), float("nan"), self.gauss(0, 1e9), self.uniform(-1, 1), 1.7976931348623157e308, 5e-324])
            if not pa.types.is_float32(kind):
                return value
            value = max(-3.4028234663852886e38, min(3.4028234663852886e38, value)) if abs(value) != float("inf") else value
            return struct.unpack("f", struct.pack("f", value))[0]
        if pa.types.is_decimal(kind):
            end = 10**20 - 1
            return Decimal(self.choice([end, -end, 0, 1, -1, self.randrange(-end, end)])).scaleb(-4)
        if pa.types.is_date(kind):
            return self.choice([date.min, date.max, date(1969, 12, 31), date(1582, 10, 4), date.fromordinal(self.randrange(1, 3652060))])
        if pa.types.is_timestamp(kind):
            return self.choice([
                datetime(1, 1, 1, tzinfo=timezone.utc),
                datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
                EPOCH,
                EPOCH - MICRO,
                EPOCH + self.randrange(-(10**16), 10**16) * MICRO,
                datetime(2024, 2, 29, 12, 0, 0, 120000, tzinfo=timezone.utc),
            ])
        if pa.types.is_binary(kind):
            return self.randbytes(self.randrange(9))
        return self.text()

    def text(self):
        parts = ["a", "Z9", " ", ",", '"', '""', "'", "\\", "\\n", "\n", "\r\n", "\t", "é", "\u2028", "日本", "\U0001f600", "null", "NULL", "{", "]", "%2F", "\x7f", ";", "1e5"]
        return "x" + "".join(self.choice(parts) for _ in range(self.randrange(6)))


def table(columns, seed, near=False):
    """Random rows; `near` keeps times in the range of nanoseconds."""
    rng, data = Random(seed), {}
    for name, _, kind in columns:
        values = [rng.value(kind) for _ in range(ROWS)]
        if name == "id":
            values = list(range(ROWS))
        if near and pa.types.is_timestamp(kind):
            values = [v if v is None or 1700 < v.year < 2200 else EPOCH + timedelta(seconds=v.microsecond) for v in values]
        data[name] = pa.array(values, kind)
    return pa.table(data)


def lines(seed):
    rng = Random(seed)
    texts = [rng.text().replace("\n", " ").replace("\r", " ") for _ in range(ROWS)]
    return pa.table({"value": pa.array(texts)})


# --- what the others write -------------------------------------------------------------------


def iso(value):
    text = value.strftime("%Y").zfill(4) + value.strftime("-%m-%dT%H:%M:%S")
    return f"{text}.{value.microsecond:06}Z"


def json_text(value):
    if isinstance(value, datetime):
        return json.dumps(iso(value))
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, dict):
        return "{" + ", ".join(json.dumps(k) + ":" + json_text(v) for k, v in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return json_text(dict(value))
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=zlib.crc32(str(value).encode(errors="surrogatepass")) % 2 == 0)


def write_json(rows, file):
    maps = [f.name for f in rows.schema if pa.types.is_map(f.type)]
    with open(file, "w", encoding="utf-8", newline="\n") as out:
        for row in rows.to_pylist():
            for name in maps:
                row[name] = None if row[name] is None else dict(row[name])
            out.write(json_text(row) + "\n")


def write_csv(rows, file):
    with open(file, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(rows.column_names)
        for row in rows.to_pylist():
            cells = [iso(v) if isinstance(v, datetime) else f"{v:f}" if isinstance(v, Decimal) else v for v in row.values()]
            writer.writerow([str(v).lower() if isinstance(v, bool) else v for v in cells])


def avro_type(kind, name):
    if pa.types.is_list(kind):
        inner = {"type": "array", "items": avro_type(kind.value_type, name + "_i")}
    elif pa.types.is_map(kind):
        inner = {"type": "map", "values": avro_type(kind.item_type, name + "_v")}
    elif pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": avro_type(f.type, name + f.name)} for f in kind]
        inner = {"type": "record", "name": "r_" + name, "fields": fields}
    elif pa.types.is_decimal(kind):
        inner = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
    elif pa.types.is_timestamp(kind):
        inner = {"type": "long", "logicalType": "timestamp-micros"}
    elif pa.types.is_date(kind):
        inner = {"type": "int", "logicalType": "date"}
    else:
        names = {pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "bytes"}
        inner = names[kind]
    return ["null", inner]


def write_avro(rows, file):
    maps = [f.name for f in rows.schema if pa.types.is_map(f.type)]
    fields = [{"name": f.name, "type": avro_type(f.type, f.name)} for f in rows.schema]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    records = rows.to_pylist()
    for record in records:
        for name in maps:
            record[name] = None if record[name] is None else dict(record[name])
    with open(file, "wb") as out:
        fastavro.writer(out, schema, records, codec="deflate", sync_interval=2000)


def write_text(rows, file):
    pathlib.Path(file).write_text("\n".join(rows["value"].to_pylist()) + "\n", encoding="utf-8", newline="\n")


def write_parquet(rows, file):
    pa.parquet.write_table(rows, file, row_group_size=100, compression="zstd", data_page_version="2.0")


def write_orc(rows, file):
    pa.orc.write_table(rows, file, compression="zstd", stripe_size=4096)


# --- what the others read --------------------------------------------------------------------


def files(folder):
    return sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file() and not any(part.startswith(("_", ".")) for part in p.relative_to(folder).parts))


def typed(value, kind):
    """A value of JSON or CSV as one of Arrow's type."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [typed(v, kind.value_type) for v in value]
    if pa.types.is_map(kind):
        return [(k, typed(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_struct(kind):
        return {f.name: typed(value.get(f.name), f.type) for f in kind}
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else {"true": True, "false": False}[value]
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal("0.0001"))
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if pa.types.is_binary(kind):
        return base64.b64decode(value)
    return value


def of_rows(rows, columns):
    return pa.table({name: pa.array([typed(row.get(name), kind) for row in rows], kind) for name, _, kind in columns})


def read_json(folder, columns):
    rows = [json.loads(line, parse_float=Decimal) for file in files(folder) for line in file.read_text(encoding="utf-8").split("\n") if line]
    return of_rows(rows, columns)


def read_csv(folder, columns):
    rows = []
    for file in files(folder):
        with open(file, encoding="utf-8", newline="") as text:
            rows += [{k: v or None for k, v in row.items()} for row in csv.DictReader(text)]
    return of_rows(rows, columns)


def read_avro(folder, columns):
    rows = []
    for file in files(folder):
        with open(file, "rb") as data:
            rows += list(fastavro.reader(data))
    plain = lambda v, k: list(v.items()) if pa.types.is_map(k) and v is not None else v
    return pa.table({name: pa.array([plain(row[name], kind) for row in rows], kind) for name, _, kind in columns})


def read_text(folder, columns):
    texts = [line for file in files(folder) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    return pa.table({"value": texts})


def read_parquet(folder, columns):
    return pa.concat_tables([pa.parquet.read_table(file, partitioning=None) for file in files(folder)])


def read_orc(folder, columns):
    return pa.concat_tables([pa.orc.read_table(file) for file in files(folder)])


# --- the comparison --------------------------------------------------------------------------


def shown(value, kind):
    """A value in which equal means the same."""
    if value is None:
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [shown(v, kind.value_type) for v in value]
    if pa.types.is_map(kind):
        return sorted((k, shown(v, kind.item_type)) for k, v in value)
    if pa.types.is_struct(kind):
        return {f.name: shown(value[f.name], f.type) for f in kind}
    if pa.types.is_floating(kind):
        return struct.pack(">d", value) if value == value else "NaN"
    return value


def column(rows, name):
    kind = rows.schema.field(name).type
    data = rows[name]
    if pa.types.is_timestamp(kind):
        utc = pa.timestamp("us", tz=kind.tz)
        return data.cast(utc, safe=False).cast(pa.int64()).to_pylist()
    return [shown(v, kind) for v in data.to_pylist()]


def compare(what, expected, found):
    key = "id" if "id" in expected.column_names else "value"
    if key == "id":
        found = found.sort_by("id")
    if len(found) != len(expected):
        sys.exit(f"{what}: {len(found)} rows, expected {len(expected)}")
    for name in expected.column_names:
        ours, theirs = column(found, name), column(expected, name)
        for at, (a, b) in enumerate(zip(ours, theirs)):
            if a != b:
                sys.exit(f"{what}: row {at}, column {name}: {a!r}, expected {b!r}")
    print(f"{what}: {len(expected)} rows of {len(expected.column_names)} columns agree")


def ddl(columns):
    return ", ".join(f"{name} {kind}" for name, kind, _ in columns)


def statement(name, source, form, columns, sink, folder):
    schema = f", schema => '{ddl(columns)}'" if form != "text" else ""
    properties = f"TBLPROPERTIES ({WRITER.get(sink, '')}'outputMode' = 'append')"
    names = ", ".join(name for name, _, _ in columns)
    return (
        f"CREATE STREAMING TABLE {name} USING {sink} LOCATION '{folder}' {properties} AS\n"
        f"SELECT {names} FROM STREAM read_files('{source}', format => '{form}'{READER.get(form, '')}{schema});\n"
    )


def main(program, seed, formats):
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        script, theirs, ours = "", {}, {}
        for number, form in enumerate(formats):
            for folder_of in (f"theirs/{form}", f"base/{form}"):
                (folder / folder_of).mkdir(parents=True)
            make = lambda columns, n: lines(n) if form == "text" else table(columns, n, form == "orc")
            theirs[form] = make(READ[form], seed * 100 + number)
            globals()[f"write_{form}"](theirs[form], folder / f"theirs/{form}/file")
            script += statement(f"read_{form}", f"theirs/{form}", form, READ[form], "parquet", f"read/{form}")
            ours[form] = make(WRITTEN[form], seed * 100 + 50 + number)
            write_parquet(ours[form], folder / f"base/{form}/file")
            script += statement(f"written_{form}", f"base/{form}", "parquet", WRITTEN[form], form, f"written/{form}")
        (folder / "files.sql").write_text(script)
        done = subprocess.run([program, "run", "files.sql"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"the program failed: {done.stdout[-3000:]}")
        for form in formats:
            compare(f"{form}, theirs read by us", theirs[form], read_parquet(folder / f"read/{form}", READ[form]))
            read = globals()[f"read_{form}"]
            compare(f"{form}, ours read by them", ours[form], read(folder / f"written/{form}", WRITTEN[form]))


if __name__ == "__main__":
    words = sys.argv[2:]
    seeds = [int(word) for word in words if word != "all"]
    formats = ["text", "csv", "json", "parquet"] + (["orc", "avro"] if "all" in words else [])
    main(str(pathlib.Path(sys.argv[1]).absolute()), seeds[0] if seeds else 1, formats)
