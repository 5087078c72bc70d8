"""Environments of jobs on Spark, and the inputs and reports of their programs."""

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

#: Options of JVMs that end before what they compile has paid; in local mode penstock sets them.
LIGHT_JVMS = dict.fromkeys(
    ["spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"],
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)


def light_jvms(master):
    """Return `LIGHT_JVMS`, unless there is only the JVM of the local mode."""
    return {} if master.startswith("local[") else LIGHT_JVMS


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
