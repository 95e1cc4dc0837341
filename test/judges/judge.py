"""Other engines read a Delta table; its rows go to stdout as JSON lines in the form of lakehouse/read/json-value.ts.

    judge.py rows    delta-rs|duckdb URI JSON
    judge.py changes delta-rs        URI JSON      (with _change_type, _commit_version)
    judge.py spark JSON                            (SQL statements, one result a line)
    judge.py continue JSON                         (a query on a Kafka topic goes on from a checkpoint: [batch, partition, offset, value] a line)

JSON: {"version": n, "from": n, "to": n, "storage": {...}, "extension": path, "jars": [...], "statements": [...]}
"""
import base64
import json
import math
import struct
import sys


def civil(days):
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (1 if month <= 2 else 0), month, doy - (153 * mp + 2) // 5 + 1


def date_text(days):
    year, month, day = civil(days)
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):04d}"
    return f"{text}-{month:02d}-{day:02d}"


def timestamp_text(micros, suffix):
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)}T{clock}.{fraction:06d}{suffix}"


def float_text(value, single):
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0"
    text = repr(value)
    if single:
        for digits in range(1, 10):
            text = f"{value:.{digits - 1}e}"
            try:
                if struct.pack("<f", float(text)) == struct.pack("<f", value):
                    break
            except OverflowError:
                # The greatest floats, rounded up to fewer digits, are none.
                continue
        text = repr(float(text))
    return number_text(text)


def number_text(text):
    """Digits of a Python float as JavaScript prints them."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0") or "0"
    if len(digits) <= point <= 21:
        body = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        body = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        body = f"{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return sign + body


def arrow_texts(array):
    """JSON texts of an arrow array's values; None for NULL is already 'null'."""
    import pyarrow as pa
    import pyarrow.types as t

    kind = array.type
    if t.is_dictionary(kind):
        return arrow_texts(array.dictionary_decode())
    if isinstance(kind, pa.ExtensionType):
        return arrow_texts(array.storage)
    null = [not valid for valid in array.is_valid().to_pylist()]

    def each(values, text):
        return ["null" if null[i] else text(value) for i, value in enumerate(values)]

    if t.is_null(kind):
        return ["null"] * len(array)
    if t.is_boolean(kind):
        return each(array.to_pylist(), lambda v: "true" if v else "false")
    if t.is_integer(kind):
        return each(array.to_pylist(), str)
    if t.is_floating(kind):
        return each(array.to_pylist(), lambda v: float_text(v, kind == pa.float32()))
    if t.is_decimal(kind):
        return each(array.to_pylist(), lambda v: format(v, "f"))
    if t.is_date(kind):
        return each(array.cast(pa.date32()).cast(pa.int32()).to_pylist(), lambda v: f'"{date_text(v)}"')
    if t.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
        suffix = "Z" if kind.tz else ""
        return each(micros, lambda v: f'"{timestamp_text(v, suffix)}"')
    if t.is_struct(kind):
        children = [arrow_texts(array.field(i)) for i in range(kind.num_fields)]
        names = [json.dumps(kind.field(i).name, ensure_ascii=False) for i in range(kind.num_fields)]
        rows = zip(*children) if children else [()] * len(array)
        return each(rows, lambda row: "{" + ",".join(f"{n}:{v}" for n, v in zip(names, row)) + "}")
    if not t.is_nested(kind):
        if "binary" in str(kind):
            return each(array.to_pylist(), lambda v: f'"{base64.b64encode(v).decode()}"')
        return each(array.to_pylist(), lambda v: json.dumps(v, ensure_ascii=False))
    offsets = array.offsets.to_pylist()
    if t.is_map(kind):
        keys, items = arrow_texts(array.keys), arrow_texts(array.items)
        values = [f'{{"key":{k},"value":{v}}}' for k, v in zip(keys, items)]
    else:
        values = arrow_texts(array.values)
    return each(range(len(array)), lambda i: "[" + ",".join(values[offsets[i] : offsets[i + 1]]) + "]")


def print_arrow(reader):
    import pyarrow as pa

    for batch in pa.RecordBatchReader.from_stream(reader):
        names = [json.dumps(name, ensure_ascii=False) for name in batch.schema.names]
        columns = [arrow_texts(column) for column in batch.columns]
        rows = zip(*columns) if columns else []
        for row in rows:
            print("{" + ",".join(f"{n}:{v}" for n, v in zip(names, row)) + "}")


def delta_rs(uri, options):
    from deltalake import DeltaTable

    return DeltaTable(uri, version=options.get("version"), storage_options=options.get("storage"))


def rows(engine, uri, options):
    if engine == "delta-rs":
        from deltalake import QueryBuilder

        print_arrow(QueryBuilder().register("t", delta_rs(uri, options)).execute("SELECT * FROM t"))
        return
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{options['extension']}'")
    connection.execute("SET TimeZone = 'UTC'")
    for statement in options.get("statements", []):
        connection.execute(statement)
    version = "" if options.get("version") is None else f", version => {int(options['version'])}"
    print_arrow(connection.execute("SELECT * FROM delta_scan('" + uri.replace("'", "''") + f"'{version})").arrow())


def changes(uri, options):
    feed = delta_rs(uri, options).load_cdf(starting_version=options["from"], ending_version=options["to"])
    print_arrow(feed)


def spark_text(value, kind):
    name = kind.typeName()
    if value is None:
        return "null"
    if name == "array":
        return "[" + ",".join(spark_text(v, kind.elementType) for v in value) + "]"
    if name == "map":
        pair = lambda k, v: f'{{"key":{spark_text(k, kind.keyType)},"value":{spark_text(v, kind.valueType)}}}'
        return "[" + ",".join(pair(k, v) for k, v in value.items()) + "]"
    if name == "struct":
        fields = (f"{json.dumps(f.name, ensure_ascii=False)}:{spark_text(v, f.dataType)}" for f, v in zip(kind.fields, value))
        return "{" + ",".join(fields) + "}"
    if name in ("float", "double"):
        return float_text(value, name == "float")
    if name == "boolean":
        return "true" if value else "false"
    if name == "decimal":
        return format(value, "f")
    if name == "date":
        return f'"{date_text(value)}"'
    if name in ("timestamp", "timestamp_ntz"):
        return f'"{timestamp_text(value, "Z" if name == "timestamp" else "")}"'
    if name == "binary":
        return f'"{base64.b64encode(value).decode()}"'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def plain_column(field):
    """Dates and times as numbers: Python's own end at the years 1 and 9999."""
    name = "`" + field.name.replace("`", "``") + "`"
    kind = field.dataType.typeName()
    if kind == "date":
        return f"unix_date({name}) AS {name}"
    if kind in ("timestamp", "timestamp_ntz"):
        return f"unix_micros(CAST({name} AS TIMESTAMP)) AS {name}"
    return name


def spark_session(options, settings):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("judge")
    settings = {
        "spark.jars": ",".join(options["jars"]),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": options["warehouse"],
        **settings,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def continue_query(options):
    session = spark_session(options, {})

    def show(frame, batch):
        for row in frame.selectExpr("partition", "offset", "cast(value as string) value").orderBy("partition", "offset").collect():
            print(json.dumps([batch, row["partition"], row["offset"], row["value"]]), flush=True)

    source = session.readStream.format("kafka").options(**options["source"]).load()
    query = source.writeStream.foreachBatch(show).option("checkpointLocation", options["checkpoint"])
    query.trigger(availableNow=True).start().awaitTermination()
    session.stop()


def spark(options):
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.databricks.delta.snapshotPartitions": "2",
        **options.get("settings", {}),
    }
    session = spark_session(options, settings)
    for statement in options["statements"]:
        frame = session.sql(statement)
        rows = frame.selectExpr(*(plain_column(field) for field in frame.schema.fields)).collect()
        print("[" + ",".join(json.dumps(spark_text(row, frame.schema)) for row in rows) + "]", flush=True)
    session.stop()


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    parsed = json.loads(arguments[-1])
    if command == "rows":
        rows(arguments[0], arguments[1], parsed)
    elif command == "changes":
        changes(arguments[1], parsed)
    elif command == "continue":
        continue_query(parsed)
    else:
        spark(parsed)
