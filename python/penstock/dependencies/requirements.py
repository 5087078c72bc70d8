"""Installs the packages of a requirements file into a folder of their own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from penstock.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

CORE_PACKAGES: Final = ("cloudpickle", "msgspec", "psutil", "pyarrow", "rocksdict")
"""Packages that a worker's penstock imports; another version may not read the driver's data."""

PROBE_TIMEOUT_S: Final = 120.0
_VERSIONS: Final = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
INSTALL_TIMEOUT_S: Final = 1800.0
_LONGEST_LOG: Final = 3000


def install_requirements(
    interpreter: str, requirements: Path, packages: Path | None, target: Path
) -> None:
    """Run pip.

    Args:
        interpreter: The interpreter of the packages, whose pip is used.
        requirements: The requirements file.
        packages: The folder that has the packages; then no index is used.
        target: The folder of modules; its folder ``bin`` gets scripts.

    Raises:
        DependencyError: pip is missing or failed; has the end of its log.
    """
    target.mkdir()
    command = [interpreter, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["--no-warn-script-location", "--requirement", str(requirements)]
    command += ["--target", str(target)]
    if packages is not None:
        command += ["--no-index", "--find-links", str(packages)]
    try:
        pip = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=requirements.parent,
            env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DependencyError(f"the requirements cannot be installed: {error}") from error
    if pip.returncode != 0:
        log = pip.stdout.decode(errors="replace").strip()[-_LONGEST_LOG:]
        where = "" if packages is None else " from the folder of packages, without an index"
        raise DependencyError(
            f"pip could not install the requirements{where} (exit code {pip.returncode}):\n{log}"
        )
    keep_core_packages(target, core_versions(interpreter))


def core_versions(interpreter: str) -> dict[str, str]:
    """Return the versions of the packages that an interpreter's penstock works with.

    Raises:
        DependencyError: The interpreter does not answer.
    """
    try:
        asked = subprocess.run(
            [interpreter, "-c", _VERSIONS, *CORE_PACKAGES],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
        found: dict[str, str] = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise DependencyError(f"{interpreter} did not list its packages: {error}") from error
    return found


def keep_core_packages(target: Path, own: Mapping[str, str]) -> None:
    """Remove packages from the folder of requirements that would hide a worker's own.

    A driver and its workers have the same release of penstock, and these packages encode their
    messages.

    Args:
        target: The folder of requirements.
        own: The worker's versions.
    """
    for distribution in list(importlib.metadata.distributions(path=[str(target)])):
        name = distribution.name.lower()
        if name not in own or own[name] == distribution.version:
            continue
        logger.warning(
            "the requirements contain %s %s, but penstock on the workers uses %s %s, which "
            "stays: functions get the latter",
            name,
            distribution.version,
            name,
            own[name],
        )
        _remove(distribution, target)


def _remove(distribution: importlib.metadata.Distribution, target: Path) -> None:
    root = target.resolve()
    folders: set[Path] = set()
    for file in distribution.files or ():
        path = (root / file).resolve()
        if path.is_relative_to(root):  # scripts are listed at pip's usual place
            path.unlink(missing_ok=True)
            folders |= {parent for parent in path.parents if parent.is_relative_to(root)} - {root}
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        # Byte code is created on import or installation, and listed nowhere.
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        with contextlib.suppress(OSError):  # another package has files in it
            folder.rmdir()
