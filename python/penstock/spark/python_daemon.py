"""The process from which Spark forks its Python workers, started faster than Spark's own.

Spark puts the archive ``pyspark.zip`` of its own folder first on the path of its Python processes.
Modules in an archive are recompiled in every process, which takes longer than everything else
between Spark's start and a TaskExecutor's.  If the interpreter has the same pyspark installed, as
unpacked files beside the archive, those are used.

Named by ``spark.python.daemon.module`` and run as ``python -m penstock.spark.python_daemon``.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def without_own_archives(path: list[str]) -> list[str]:
    """Return the path without archives of the pyspark that its other folders provide."""
    packages = [Path(entry, "pyspark") for entry in path if Path(entry, "pyspark").is_dir()]
    archives = {
        str(package / "python" / "lib" / "pyspark.zip")
        for package in packages
        if (package / "__init__.py").is_file()
    }
    return [entry for entry in path if entry not in archives]


def main() -> None:
    """Serve Spark until Spark ends, as pyspark's own daemon does."""
    sys.path[:] = without_own_archives(sys.path)
    import penstock.spark.host  # noqa: F401 (the forked workers inherit it)

    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
