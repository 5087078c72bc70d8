"""Finds or starts the Spark that hosts the TaskExecutors."""

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.options.cluster import BIND_HOST, EVERY_ADDRESS, RPC_ADDRESS
from penstock.common.options.security import TLS_ENABLED
from penstock.errors import ConfigurationError
from penstock.spark.local_folder import make_local_folder, remove_left_folders
from penstock.spark.places import check_master

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark import SparkConf, SparkContext

logger = logging.getLogger(__name__)

# Options that make Spark encrypt between its processes; the second one is older.
_NETWORK_ENCRYPTION = (
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.rpc.enabled",
)

# Wildcard addresses, which cannot be dialled.
_NO_ADDRESSES = (None, "", *EVERY_ADDRESS)

# Spark's own start dominates a short job; features that a data-plane host never needs are off.
_EMBEDDED_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.app.name": "penstock",
    # Otherwise Spark's end would wait for a cleaner that queries an executor on a lost host, until
    # spark.rpc.askTimeout, which is 120 s.
    "spark.cleaner.referenceTracking.blocking": "false",
}

# In local mode the JVM only places tasks; it starts sooner without its optimising compiler and its
# parallel collector, and leaves the cores to the workers.
_LOCAL_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# On one machine Spark's start-up log is irrelevant to the job: it warns of the machine's name and
# of Hadoop's native library.
_QUIET_LOG = Path(__file__).with_name("log4j2.properties")


def spark_context(configuration: Mapping[str, str]) -> tuple["SparkContext", bool]:
    """Return the process's Spark context, or a new one from the configuration.

    Options whose key starts with ``spark.`` are Spark's and only apply to a new context.  The
    master is ``spark.master``, else Spark's own configuration, else ``local[*]``.

    Returns:
        The context, and whether this call started it (the caller then stops it).

    Raises:
        ConfigurationError: pyspark is not installed, or Spark does not start.
    """
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise ConfigurationError(
            "the spark target needs pyspark, which is not installed: "
            "pip install 'penstock-engine[spark]' (a cluster may bring its own pyspark), "
            "or choose --target local"
        ) from error
    active = SparkContext._active_spark_context
    if active is not None:
        _warn_of_late_options(active, configuration)
        _choose_interpreter(active)
        return active, False
    # The executors' Python must be this one: it has pickled the job's code.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit has started the JVM: the settings of its command line are there, and a
        # SparkConf without it would not have them.
        SparkContext._ensure_initialized()
    conf = SparkConf()
    for key, value in _EMBEDDED_DEFAULTS.items():
        conf.setIfMissing(key, value)
    for key, value in configuration.items():
        if key.startswith("spark."):
            conf.set(key, value)
    conf.setIfMissing("spark.master", "local[*]")
    check_master(str(conf.get("spark.master")))
    conf.setIfMissing("spark.python.daemon.module", "penstock.spark.python_daemon")
    if is_local(conf.get("spark.master")):
        conf.setIfMissing("spark.driver.extraJavaOptions", _local_jvm_options())
    folder = _set_local_folder(conf)
    try:
        context = _started(conf)
    finally:
        if folder is not None:
            _remove_with_its_jvm(folder, SparkContext._jvm)
    return context, True


def _started(conf: "SparkConf") -> "SparkContext":
    """Start a new Spark.

    Raises:
        ConfigurationError: Spark does not start.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    try:
        return SparkContext.getOrCreate(conf)
    except Py4JJavaError as error:
        why = str(error.java_exception.toString())
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        why = (
            "its JVM ended before it answered, and its output above says why: use a Java that this "
            "Spark supports (JAVA_HOME, or java on the PATH), and check Spark's options"
        )
    raise ConfigurationError(f"Spark with spark.master={conf.get('spark.master')}: {why}")


def _local_jvm_options() -> str:
    """Return the options of a JVM in local mode; it logs less, unless Spark's log is configured."""
    homes = [os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME", "") + "/conf"]
    if any(home and Path(home, "log4j2.properties").is_file() for home in homes):
        return _LOCAL_JVM_OPTIONS
    return f"{_LOCAL_JVM_OPTIONS} -Dlog4j2.configurationFile={_QUIET_LOG.as_uri()}"


def _choose_interpreter(context: "SparkContext") -> None:
    """Let a Spark on this machine run this interpreter, unless the program has named another.

    By default it runs the first ``python3`` of the path, which outside of an activated virtual
    environment is another one, without penstock.
    """
    named = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if not named and is_local(context.getConf().get("spark.master")):
        context.pythonExec = sys.executable


def _set_local_folder(conf: "SparkConf") -> Path | None:
    """Put the temporary files of a Spark on this machine into one folder, unless one is set."""
    chosen = conf.contains("spark.local.dir") or "SPARK_LOCAL_DIRS" in os.environ
    if chosen or not str(conf.get("spark.master")).startswith("local"):
        return None
    remove_left_folders()
    folder = make_local_folder()
    # Spark's own option, spark.local.dir, would log a warning, and not apply to libraries.
    for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        options = conf.get(key, "") or ""
        if "java.io.tmpdir" not in options:
            conf.set(key, f'{options} "-Djava.io.tmpdir={folder}"'.lstrip())
    return folder


def _remove_with_its_jvm(folder: Path, jvm: "JVMView | None") -> None:
    """Let the JVM remove the folder when it ends, after Spark's own clean-up.

    The JVM may outlive a failed start of Spark; if there is no JVM, remove the folder now.
    """
    if jvm is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
        jvm.java.io.File(str(folder))
    )


def _warn_of_late_options(context: "SparkContext", configuration: Mapping[str, str]) -> None:
    """Log which options are ignored because Spark already runs."""
    runs_with = context.getConf()
    late = [
        key
        for key, value in sorted(configuration.items())
        if key.startswith("spark.") and runs_with.get(key) != value
    ]
    if late:
        logger.warning("Spark runs already, without effect: %s", ", ".join(late))


def control_address(context: "SparkContext") -> str:
    """Return the driver's address for Spark's executors, where the job's control port binds.

    In a pod the driver's host is the name of a service, which may not resolve yet; there Spark's
    options name the address to bind.
    """
    conf = context.getConf()
    if is_local(conf.get("spark.master")):
        return "127.0.0.1"
    bound = conf.get("spark.driver.bindAddress")
    return str(conf.get("spark.driver.host") if bound in _NO_ADDRESSES else bound)


def control_plane_options(
    context: "SparkContext", configuration: Mapping[str, str]
) -> dict[str, str]:
    """Return the control-plane options that follow from Spark's, unless they are set."""
    address = control_address(context)
    defaults = {BIND_HOST.key: address}
    if BIND_HOST.read(defaults | dict(configuration)) in EVERY_ADDRESS:
        defaults[RPC_ADDRESS.key] = address
    if encrypts_its_network(context):
        # A user who encrypts Spark's traffic does not expect the job's records in plain text.
        defaults[TLS_ENABLED.key] = "true"
    return defaults


def encrypts_its_network(context: "SparkContext") -> bool:
    """Return whether Spark's processes encrypt their traffic."""
    conf = context.getConf()
    return any(str(conf.get(key, "false")).lower() == "true" for key in _NETWORK_ENCRYPTION)


def refuse_copies(context: "SparkContext") -> None:
    """Check whether Spark would start copies of slow tasks.

    A copy hosts no worker, so it ends at once; Spark then ends the first task, a working
    TaskExecutor.

    Raises:
        ConfigurationError: It would, even for a stage with a single task.
    """
    conf = context.getConf()
    threshold = conf.get("spark.speculation.task.duration.threshold")
    if str(conf.get("spark.speculation", "false")).lower() == "true" and threshold is not None:
        raise ConfigurationError(
            f"spark.speculation.task.duration.threshold: {threshold} has Spark replace each "
            "TaskExecutor after that time: leave it out, or set spark.speculation to false"
        )


def is_stopped(context: "SparkContext") -> bool:
    """Return whether the application was stopped, or its JVM has ended."""
    from py4j.protocol import Py4JError

    if context._jsc is None:
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def cancel_group(context: "SparkContext", group: str) -> None:
    """Cancel the Spark jobs of a group, unless Spark has ended."""
    if not is_stopped(context):
        context.cancelJobGroup(group)


def is_local(master: str | None) -> bool:
    """Return whether driver and executors share one JVM."""
    name = master or ""
    return name.startswith("local") and not name.startswith("local-cluster")
