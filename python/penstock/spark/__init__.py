"""The spark target: TaskExecutors run on the executors of a Spark application.

The only package that imports pyspark, and only when a job is executed.  The name is resolved on
first use: Spark's Python workers import only the host of a TaskExecutor.
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.spark.executor import SparkExecutor

__all__ = ["SparkExecutor"]

__getattr__, __dir__ = lazy_exports(__name__, {"SparkExecutor": "executor"})
