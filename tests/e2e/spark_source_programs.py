"""Spark's data as sources, in scenarios of all sources: ``python … FOLDER SCENARIO…``.

Spark writes the numbers; the jobs run in this process, where they can be delayed, and in separate
workers, one of which is killed.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from e2e.spark_jobs import LIGHT_JVMS
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.streams import read_batches, write_batches
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.source_scenarios import (
    once_after_a_failure,
    once_after_a_kill,
    once_at_another_parallelism,
)

COUNT = 12_000


def numbers(stream):
    return stream.map(lambda row: row.n, Types.LONG())


def frame(spark, folder):
    """Return a new frame for the same path each time, like that of a restarted program."""

    def make(env):
        rows = spark.range(0, COUNT, 1, 4).selectExpr("id AS n").orderBy("n")
        return numbers(env.from_spark(rows, str(folder / "handed-over")))

    return make


def batches(spark, folder):
    """Let a query write several batches."""
    given, taken = str(folder / "given"), str(folder / "batches")
    spark.range(0, COUNT, 1, 4).selectExpr("id AS n").write.json(given)
    rows = spark.readStream.schema("n LONG").option("maxFilesPerTrigger", 1).json(given)
    query = rows.writeStream.foreachBatch(write_batches(taken)).trigger(availableNow=True)
    query.option("checkpointLocation", str(folder / "query")).start().awaitTermination()

    def make(env):
        source = read_batches(rows.schema, taken, Duration.of_millis(20))
        return numbers(env.from_source(source, WatermarkStrategy.no_watermarks(), "batches"))

    return make


def left_folders(spark, folder):
    """A restored job replaces Spark's unfinished folders, and no other ones."""
    options = {"execution.state-recovery.path": str(folder / "savepoint")}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    others, left = folder / "others", folder / "left"
    for place in (others / "own", left / "_temporary"):
        place.mkdir(parents=True)
    env.from_spark(spark.range(3), str(left))
    assert (left / "_SUCCESS").exists()
    try:
        env.from_spark(spark.range(3), str(others))
    except AnalysisException:
        assert [place.name for place in others.iterdir()] == ["own"]
        print("others are kept", flush=True)


SCENARIOS = {
    "savepoint": lambda make, at, ends: once_at_another_parallelism(make, at, COUNT, ends=ends),
    "failure": lambda make, at, ends: once_after_a_failure(make, COUNT),
    "kill": lambda make, at, ends: once_after_a_kill(make, at, COUNT),
}


def main():
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = spark.config(map=LIGHT_JVMS).getOrCreate()
    left_folders(spark, Path(sys.argv[1], "folders"))
    for source in (frame, batches):
        for name in sys.argv[2:]:
            at = Path(sys.argv[1], source.__name__, name)
            at.mkdir(parents=True)
            SCENARIOS[name](source(spark, at), at, ends=source is frame)
            print(source.__name__, name, flush=True)


if __name__ == "__main__":
    main()
