"""Writes rows as a Delta table with delta-rs: write-delta.py URI '{"mode", "fields": [[name, type]], "rows": [[text or null]]}'."""

import json
import sys

import pyarrow as pa
from deltalake import write_deltalake

TYPES = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "decimal": pa.decimal128(12, 2),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

uri, request = sys.argv[1], json.loads(sys.argv[2])
columns = []
for place, (_, kind) in enumerate(request["fields"]):
    texts = pa.array([row[place] for row in request["rows"]], pa.string())
    columns.append(texts.cast(TYPES[kind]))
table = pa.table(columns, schema=pa.schema([(name, TYPES[kind]) for name, kind in request["fields"]]))
write_deltalake(uri, table, mode=request["mode"])
