"""A query with a Python function; the package is penstock or pyflink.

    table_function.py ROOT general|pandas ROWS

Prints the seconds of the job as JSON.
"""

import importlib
import json
import sys
import time

root, kind, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
table = importlib.import_module(f"{root}.table")
udf = importlib.import_module(f"{root}.table.udf").udf


def main():
    env = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    config = env.get_config()
    config.set("parallelism.default", "2")
    config.set("pipeline.object-reuse", "true")
    config.set("python.execution-mode", "thread" if kind == "general" else "process")
    function = udf(lambda x: x + 1, result_type=table.DataTypes.BIGINT(), func_type=kind)
    env.create_temporary_function("f", function)
    env.execute_sql(
        "CREATE TABLE numbers (x BIGINT) WITH ('connector' = 'datagen', "
        "'rows-per-second' = '1000000000', 'fields.x.kind' = 'sequence', "
        f"'fields.x.start' = '1', 'fields.x.end' = '{rows}')"
    )
    env.execute_sql("CREATE TABLE dropped (y BIGINT) WITH ('connector' = 'blackhole')")
    begun = time.perf_counter()
    env.execute_sql("INSERT INTO dropped SELECT f(x) FROM numbers").wait()
    print(json.dumps({"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
