"""Installs the packages of a requirements file into a folder of their own."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from penstock.errors import DependencyError

if TYPE_CHECKING:
    from pathlib import Path

INSTALL_TIMEOUT_S: Final = 1800.0
_LONGEST_LOG: Final = 3000


def install_requirements(
    interpreter: str, requirements: Path, packages: Path | None, target: Path
) -> None:
    """Runs pip.

    Args:
        interpreter: For which the packages are, and whose pip is used.
        requirements: The requirements file.
        packages: The folder that has the packages; then no index is asked.
        target: Where modules go; its folder ``bin`` gets scripts.

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
