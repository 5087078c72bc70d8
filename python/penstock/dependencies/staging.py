"""The driver's side: snapshots of the declared files, and the manifest that names them."""

from __future__ import annotations

import shutil
import sys
import uuid
from typing import IO, TYPE_CHECKING

from penstock import __version__
from penstock.dependencies.declarations import PACKED_CODE, ZIP_ARCHIVES
from penstock.dependencies.manifest import BlobKey, DependencyManifest, ShippedPath
from penstock.dependencies.packing import pack_folder
from penstock.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.dependencies.declarations import Dependencies

    Put = Callable[[Callable[[IO[bytes]], object]], BlobKey]


def stage(
    dependencies: Dependencies, put: Put, program: tuple[Path, Sequence[Path]] | None = None
) -> DependencyManifest:
    """Take snapshots of all declared files.

    Args:
        dependencies: The program's declarations.
        put: Stores bytes and returns their key.
        program: The program's folder and its files to ship, if hosts cannot see it.

    Raises:
        DependencyError: A file cannot be read; names it.
    """
    requirements = dependencies.requirements
    shipped_program = None
    if program is not None:
        folder, modules = program
        blob = put(lambda out: pack_folder(folder, out, modules))
        shipped_program = ShippedPath("program", blob, "tar")
    return DependencyManifest(
        job=uuid.uuid4().hex,
        python_version=f"{sys.version_info[0]}.{sys.version_info[1]}",
        penstock_version=__version__,
        files=tuple(_ship(path, put) for path in dependencies.files),
        archives=tuple(
            _ship(archive.path, put, name=archive.target, unpacked=True)
            for archive in dependencies.archives
        ),
        requirements=None if requirements is None else _ship(requirements.file, put),
        packages=None
        if requirements is None or requirements.packages is None
        else _ship(requirements.packages, put),
        executable=dependencies.executable,
        cached_files={
            file.name: _ship(file.path, put, executable=file.executable, as_is=True)
            for file in dependencies.cached_files
        },
        program=shipped_program,
        python_path=dependencies.python_path,
    )


def _ship(
    path: Path,
    put: Put,
    *,
    name: str | None = None,
    unpacked: bool = False,
    executable: bool = False,
    as_is: bool = False,
) -> ShippedPath:
    """Store a file, or a folder as a tar.

    Args:
        path: The file or folder.
        put: Stores bytes.
        name: Its name on the worker; its own if None.
        unpacked: Whether it is an archive to unpack.
        executable: Whether it may be executed there.
        as_is: Whether packed code stays packed.
    """
    lower = path.name.lower()
    packing = "none"
    try:
        if path.is_dir():
            blob, packing = put(lambda out: pack_folder(path, out)), "tar"
        else:
            with path.open("rb") as file:
                blob = put(lambda out: shutil.copyfileobj(file, out, 1 << 20))
            if unpacked:
                packing = "zip" if lower.endswith(ZIP_ARCHIVES) else "tar"
            elif lower.endswith(PACKED_CODE) and not as_is:
                packing = "zip"
    except OSError as error:
        raise DependencyError(f"{path} cannot be shipped to the workers: {error}") from error
    return ShippedPath(name or path.name, blob, packing, executable)
