"""Detects a Spark that is configured for this process."""

from collections.abc import Mapping
from pathlib import Path

_DEFAULTS = "spark-defaults.conf"


def configured_spark(
    configuration: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Return the setting that selects a Spark, for errors and logs; None if there is none.

    Args:
        configuration: The options of penstock.
        environment: The environment variables of the process.
    """
    if "spark.master" in configuration:
        return "spark.master"
    if "PYSPARK_GATEWAY_PORT" in environment:
        return "spark-submit"
    if environment.get("PYSPARK_SUBMIT_ARGS"):
        return "PYSPARK_SUBMIT_ARGS"
    homes = environment.get("SPARK_CONF_DIR"), environment.get("SPARK_HOME", "") + "/conf"
    for home in filter(None, homes):
        path = Path(home, _DEFAULTS)
        if path.is_file() and _has_settings(path):
            return str(path)
    return None


def _has_settings(path: Path) -> bool:
    lines = map(str.strip, path.read_text("utf-8", "replace").splitlines())
    return any(line and not line.startswith("#") for line in lines)
