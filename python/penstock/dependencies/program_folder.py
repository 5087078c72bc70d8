"""The folder of the program's own modules, and the part that workers on other hosts need."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Final

from penstock.common.options.user_code import SHIP_PROGRAM
from penstock.errors import ConfigurationError

INSTALLED: Final = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
"""Names of the folders, in `sysconfig`, whose modules belong to an interpreter."""
MAX_FILES: Final = 10_000
MAX_BYTES: Final = 256 * 1024 * 1024


def program_folder() -> Path | None:
    """Return the folder in which ``import`` finds the modules beside the running program.

    For ``python program.py`` it is the program's folder; for ``python -m package.program`` the
    folder that has the package.  None for installed programs (a test runner, a notebook's kernel)
    and for interactive sessions.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is None:
        return None
    folder = Path(file).absolute().parent
    package = getattr(main, "__package__", None)
    if package:
        folder = folder.parents[package.count(".")]
    installed = [sysconfig.get_path(name) for name in INSTALLED]
    if not folder.is_dir() or any(folder.is_relative_to(path) for path in installed if path):
        return None
    return folder


def program_files(folder: Path) -> list[Path]:
    """Return the modules and packages of a program's folder, with the packages' data.

    Raises:
        ConfigurationError: They are too many or too large to be sent without a request.
    """
    found: list[Path] = []
    size = 0
    waiting = [(folder, False)]
    while waiting:
        current, in_package = waiting.pop()
        for path in sorted(current.iterdir()):
            if path.name.startswith(".") or path.name == "__pycache__":
                continue
            if path.is_dir():
                if in_package or (path / "__init__.py").is_file():
                    found.append(path)
                    waiting.append((path, True))
            elif path.is_file() and (in_package or path.suffix in (".py", ".so")):
                found.append(path)
                size += path.stat().st_size
        if len(found) > MAX_FILES or size > MAX_BYTES:
            raise ConfigurationError(
                f"the program's folder {folder} has more than {MAX_FILES} modules or {MAX_BYTES} "
                f"bytes of them, too much to be sent to the executors; set {SHIP_PROGRAM.key} to "
                "false, and name what the functions import with add_python_file"
            )
    return found
