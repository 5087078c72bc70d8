"""Environments of jobs on Spark, and the inputs and reports of their programs."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

#: Spark's classes as a JVM has loaded them, which saves others a third of the CPU time of a start.
CLASSES = Path(__file__).resolve().parents[2] / "build" / "spark_classes.jsa"
_SHARED = f"-XX:SharedArchiveFile={CLASSES}"
#: Options of JVMs that end before what they compile has paid.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LIGHT = f"{_QUICK} {_SHARED}"
LIGHT_JVMS = dict.fromkeys(
    ["spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"], LIGHT
)
#: The other options are penstock's own in local mode, which has only one JVM.
LIGHT_LOCAL_JVM = {"spark.driver.defaultJavaOptions": _SHARED}


def light_jvms(master):
    """Return the options of Spark for light JVMs."""
    return LIGHT_LOCAL_JVM if master.startswith("local[") else LIGHT_JVMS


def write_classes():
    """Write `CLASSES`, unless those of this Java and this Spark are there."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java"))
    (spark,) = Path(find_spec("pyspark").origin).with_name("jars").glob("spark-core_*.jar")
    newest = max(path.stat().st_ctime for path in (java.resolve(), spark))
    if CLASSES.exists() and CLASSES.stat().st_mtime > newest:
        return
    own = CLASSES.with_suffix(f".{os.getpid()}")
    own.parent.mkdir(exist_ok=True)
    program = (
        "from pyspark import SparkConf, SparkContext\n"
        "conf = SparkConf().setMaster('local[2]').set('spark.ui.enabled', 'false')\n"
        f"conf.set('spark.driver.extraJavaOptions', '{_QUICK} -XX:ArchiveClassesAtExit={own}')\n"
        "numbers = SparkContext(conf=conf).parallelize([1, 2], 2).barrier()\n"
        "assert numbers.mapPartitions(list).collect() == [1, 2]\n"
    )
    # The JVM has the pipe, too, so that this waits for its end.
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    own.replace(CLASSES)


def environment(master, **options):
    configuration = Configuration()
    for key, value in light_jvms(master).items():
        configuration.set_string(key, value)
    configuration.set_string("execution.target", "spark")
    configuration.set_string("spark.master", master)
    configuration.set_string("spark.ui.enabled", "false")
    for key, value in options.items():
        configuration.set_string(key.replace("_", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def endless(env):
    source = NumberSequenceSource(0, 2**62)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def touching(marker):
    """Return a map function that reports once, by a named pipe, that records arrive."""

    def tell(number):
        if number == 1_000:
            marker.write_text("running")
        return number

    return tell
