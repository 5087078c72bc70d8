"""Finds or starts the Spark that hosts the TaskExecutors."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark import SparkContext

# Spark's own start dominates a short job; what a data-plane host never needs is switched off.
_EMBEDDED_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.app.name": "penstock",
}

# In local mode the JVM only places tasks; it starts sooner without its optimising compiler and its
# parallel collector, and leaves the cores to the workers.
_LOCAL_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_context(configuration: Mapping[str, str]) -> tuple["SparkContext", bool]:
    """The process's Spark context, or a new one from the configuration.

    Options whose key begins with ``spark.`` are Spark's and apply to a new context only.  The
    master is ``spark.master``, else Spark's own configuration, else ``local[*]``.

    Returns:
        The context, and whether this call started it (its starter stops it).

    Raises:
        ConfigurationError: pyspark is not installed.
    """
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise ConfigurationError(
            "the spark target needs pyspark, which is not installed: "
            "pip install 'penstock[spark]' (a cluster may bring its own pyspark), "
            "or choose --target local"
        ) from error
    active = SparkContext._active_spark_context
    if active is not None:
        return active, False
    # The executors' Python must be this one: the job's code is pickled by it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf()
    for key, value in _EMBEDDED_DEFAULTS.items():
        conf.setIfMissing(key, value)
    for key, value in configuration.items():
        if key.startswith("spark."):
            conf.set(key, value)
    conf.setIfMissing("spark.master", "local[*]")
    if is_local(conf.get("spark.master")):
        conf.setIfMissing("spark.driver.extraJavaOptions", _LOCAL_JVM_OPTIONS)
        conf.setIfMissing("spark.python.daemon.module", "penstock.spark.python_daemon")
    return SparkContext.getOrCreate(conf), True


def control_address(context: "SparkContext") -> str:
    """The driver's address that Spark's executors can reach: where the job's control port binds."""
    if is_local(context.getConf().get("spark.master")):
        return "127.0.0.1"
    return str(context.getConf().get("spark.driver.host"))


def is_local(master: str | None) -> bool:
    """Whether driver and executors are one JVM."""
    name = master or ""
    return name.startswith("local") and not name.startswith("local-cluster")
