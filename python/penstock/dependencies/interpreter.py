"""Finds and checks the interpreter of a worker before it is used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import DependencyError

if TYPE_CHECKING:
    from penstock.dependencies.manifest import DependencyManifest

PROBE_TIMEOUT_S: Final = 120.0

_PROBE: Final = """
import json, sys
found = {"python": "%d.%d" % sys.version_info[:2], "penstock": None, "error": ""}
try:
    import penstock, penstock.taskexecutor.worker.task_executor
    found["penstock"] = penstock.__version__
except ImportError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def find_interpreter(manifest: DependencyManifest, working_directory: Path | None) -> str:
    """Return the checked interpreter of a manifest, by default this process's own.

    Args:
        manifest: The needs of the job's workers.
        working_directory: The folder with the unpacked archives; None if there are none.

    Raises:
        DependencyError: It does not exist, has another Python version, or lacks this penstock.
    """
    name = manifest.executable
    if name is None or name == sys.executable:
        return sys.executable
    path = _located(name, working_directory)
    if path != sys.executable:
        _check(name, path, manifest)
    return path


def _located(name: str, working_directory: Path | None) -> str:
    if not Path(name).is_absolute() and "/" not in name:
        found = shutil.which(name)
        if found is None:
            raise DependencyError(
                f"python.executable {name!r} is not on the PATH of this worker "
                f"({os.environ.get('PATH', '')})"
            )
        return found
    path = Path(name) if working_directory is None else working_directory / name
    if not path.is_absolute():
        raise DependencyError(
            f"python.executable {name!r} is relative, and there is no archive that it could lie "
            "in: give an absolute path, or ship the environment with add_python_archive"
        )
    if not path.is_file() or not os.access(path, os.X_OK):
        raise DependencyError(
            f"python.executable {name!r} is not a file that this worker can execute "
            f"(looked at {path})"
        )
    return str(path)


def _check(name: str, path: str, manifest: DependencyManifest) -> None:
    who = f"python.executable {name!r}"
    try:
        probe = subprocess.run(
            [path, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DependencyError(f"{who} cannot be run: {error}") from error
    try:
        found = json.loads(probe.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        text = probe.stderr.decode(errors="replace").strip()[-1000:]
        raise DependencyError(
            f"{who} is not a working Python (exit code {probe.returncode}): {text}"
        ) from None
    if found["python"] != manifest.python_version:
        raise DependencyError(
            f"{who} is Python {found['python']}, and the job's code was pickled by Python "
            f"{manifest.python_version}: both must be the same"
        )
    if found["penstock"] != manifest.penstock_version:
        has = f"has penstock {found['penstock']}" if found["penstock"] else "has no penstock"
        why = f" ({found['error']})" if found["error"] else ""
        raise DependencyError(
            f"{who} {has}{why}, and the driver is {manifest.penstock_version}: install "
            f"penstock-engine=={manifest.penstock_version} there"
        )
