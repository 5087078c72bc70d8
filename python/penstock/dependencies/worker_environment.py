"""A worker host's side: provides the interpreter, folders and files of a manifest.

Called before a worker's process is started: its interpreter may be in an archive.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.dependencies.interpreter import find_interpreter
from penstock.dependencies.job_folder import JobFolder
from penstock.dependencies.manifest import DependencyManifest, ShippedPath, manifest_of
from penstock.dependencies.requirements import install_requirements
from penstock.dependencies.unpacking import unpack
from penstock.errors import CorruptStreamError, DependencyError
from penstock.rpc.blob_client import BlobClient
from penstock.rpc.control_credentials import ControlCredentials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MANIFEST = "dependencies"
"""The entry of a launch specification that is for the host and not for the worker."""


@dataclass(frozen=True)
class WorkerEnvironment:
    """Environment of a worker's process.

    Attributes:
        interpreter: None for the host's own.
        python_path: First part of the module search path.
        program_path: The program's own folder, as it is on this host.
        working_directory: None for the host's own.
        scripts: First part of the PATH.
        cached_files: The paths of the cached files by name.
        folder: The folder of all of it; None if nothing is needed.
    """

    interpreter: str | None = None
    python_path: tuple[str, ...] = ()
    program_path: str | None = None
    working_directory: str | None = None
    scripts: tuple[str, ...] = ()
    cached_files: dict[str, str] = field(default_factory=dict)
    folder: JobFolder | None = None

    def launch(self, specification: Mapping[str, Any]) -> dict[str, Any]:
        """Return the launch specification of a worker in this environment."""
        result = {key: value for key, value in specification.items() if key != MANIFEST}
        result["cached_files"] = self.cached_files
        if self.folder is not None:
            result["job_folder"] = str(self.folder.path)
        if self.program_path is not None:  # on this host
            result["program_path"] = self.program_path
        return result

    def leave(self) -> None:
        """Leave the folder after the worker has ended; the host's last worker removes it."""
        if self.folder is not None:
            self.folder.leave()

    def remove(self) -> None:
        """Remove the files after all workers have ended."""
        if self.folder is not None:
            self.folder.remove()


def worker_environment(specification: Mapping[str, Any]) -> WorkerEnvironment:
    """Fetch, unpack and install the parts of the launch specification's manifest.

    Args:
        specification: As the driver created it, with its temporary folders.

    Raises:
        DependencyError: Something is not available; names it.
    """
    value = specification.get(MANIFEST)
    if value is None:
        return WorkerEnvironment()
    manifest = manifest_of(value)
    if manifest.is_empty:
        return WorkerEnvironment()
    temp_dirs: Sequence[str] = specification.get("temp_dirs") or ()
    parent = temp_dirs[0] if temp_dirs else tempfile.gettempdir()
    try:
        folder = JobFolder(Path(parent).absolute() / f"penstock-job-{manifest.job}")
    except OSError as error:
        raise DependencyError(f"the job's files cannot be stored in {parent}: {error}") from error
    try:
        with folder.publishing():
            host, port = specification["driver"]
            credentials = ControlCredentials.of_launch(specification)
            with BlobClient((host, port), credentials) as blobs:
                return _Preparation(manifest, folder, blobs).environment()
    except (OSError, CorruptStreamError) as error:
        folder.leave()
        raise DependencyError(f"the job's files cannot be fetched: {error}") from error
    except BaseException:
        folder.leave()
        raise


class _Preparation:
    """Publishes the parts of a manifest in a job's folder; existing parts are kept."""

    def __init__(self, manifest: DependencyManifest, folder: JobFolder, blobs: BlobClient) -> None:
        self._manifest = manifest
        self._folder = folder
        self._blobs = blobs

    def environment(self) -> WorkerEnvironment:
        manifest = self._manifest
        python_path: list[str] = []
        for index, shipped in enumerate(manifest.files):
            python_path += self._python_file(f"python-files/{index}", shipped)
        working_directory = None
        if manifest.archives:
            for shipped in manifest.archives:
                self._place(f"python-archives/{shipped.name}", shipped)
            working_directory = self._folder.path / "python-archives"
        interpreter = find_interpreter(manifest, working_directory)
        scripts = []
        if manifest.requirements is not None:
            installed = self._requirements(interpreter, manifest.requirements)
            python_path.append(str(installed))
            scripts.append(str(installed / "bin"))
        python_path += manifest.python_path
        program = None
        if manifest.program is not None:
            program = str(self._place("program", manifest.program))
        cached_files = {
            name: str(self._place(f"cached-files/{index}/{_file_name(shipped)}", shipped))
            for index, (name, shipped) in enumerate(manifest.cached_files.items())
        }
        shutil.rmtree(self._folder.path / "blobs", ignore_errors=True)
        return WorkerEnvironment(
            interpreter=None if interpreter == sys.executable else interpreter,
            python_path=tuple(python_path),
            program_path=program,
            working_directory=None if working_directory is None else str(working_directory),
            scripts=tuple(scripts),
            cached_files=cached_files,
            folder=self._folder,
        )

    def _python_file(self, place: str, shipped: ShippedPath) -> list[str]:
        path = self._place(f"{place}/{_file_name(shipped)}", shipped)
        if path.is_file():
            return [str(path.parent)]
        # A folder's content is importable, as in PyFlink; a package also by its own name.
        by_name = [str(path.parent)] if (path / "__init__.py").is_file() else []
        return [*by_name, str(path)]

    def _requirements(self, interpreter: str, shipped: ShippedPath) -> Path:
        packages = None
        if self._manifest.packages is not None:
            packages = self._place("packages", self._manifest.packages)
        file = self._place(f"requirements-file/{_file_name(shipped)}", shipped)
        return self._folder.publish(
            "requirements", partial(install_requirements, interpreter, file, packages)
        )

    def _place(self, name: str, shipped: ShippedPath) -> Path:
        """Publish a shipped path completely, or raise an error."""

        def build(part: Path) -> None:
            blob = self._folder.publish(
                f"blobs/{shipped.blob.digest}", partial(self._blobs.fetch, shipped.blob)
            )
            if shipped.packing != "none":
                part.mkdir()
                unpack(blob, shipped.packing, part)
                return
            # Not a link: two names of one content would share their permissions.
            shutil.copyfile(blob, part)
            part.chmod(0o700 if shipped.executable else 0o600)

        try:
            return self._folder.publish(name, build)
        except DependencyError as error:
            raise DependencyError(f"{shipped.name}: {error}") from error


def _file_name(shipped: ShippedPath) -> str:
    return os.path.basename(shipped.name)  # noqa: PTH119 (a name, not a path of this machine)


class SharedEnvironment:
    """The single environment of all workers of a job that one process starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: WorkerEnvironment | None = None
        self._error: DependencyError | None = None
        self._closed = False

    def of(self, specification: Mapping[str, Any]) -> WorkerEnvironment:
        """Return the environment; the first call creates it.

        Raises:
            DependencyError: A part of it is not available, or the cluster ends.
        """
        with self._lock:
            if self._closed:
                raise DependencyError("the cluster is shutting down")
            if self._error is not None:
                raise self._error
            if self._made is None:
                try:
                    self._made = worker_environment(specification)
                except DependencyError as error:
                    self._error = error
                    raise
            return self._made

    def close(self) -> None:
        """Remove the files after all workers have ended."""
        with self._lock:
            self._closed = True
            if self._made is not None:
                self._made.remove()

    def leave(self) -> None:
        """Leave the folder after this process's workers have ended; others may still use it."""
        with self._lock:
            self._closed = True
            if self._made is not None:
                self._made.leave()
