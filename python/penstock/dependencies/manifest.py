"""Manifest of the code and files that the workers' hosts fetch from a driver."""

from __future__ import annotations

from typing import Final

import msgspec

from penstock.common.values.decoders import converter


class BlobKey(msgspec.Struct, frozen=True):
    """Identifies bytes by their content.

    Attributes:
        digest: SHA-256, hexadecimal.
        size: Number of bytes.
    """

    digest: str
    size: int


class ShippedPath(msgspec.Struct, frozen=True):
    """A file or folder that becomes a path on a worker.

    Attributes:
        name: Its name there.
        blob: Its bytes.
        packing: ``none``, ``zip`` or ``tar``: how to convert the blob to the content of the path.
        executable: Whether it may be executed.
    """

    name: str
    blob: BlobKey
    packing: str = "none"
    executable: bool = False


class DependencyManifest(msgspec.Struct, frozen=True):
    """All parts of the environment of a job's workers.

    Attributes:
        job: Names the job's folder on each host; unguessable.
        files: For the module search path, the first one first.
        archives: To unpack into the working directory, each under its name.
        requirements: A requirements file.
        packages: The folder of its packages.
        executable: The interpreter; the host's own if None.
        cached_files: By the name that functions use.
        program: The folder of the program's own modules, for hosts that cannot see it.
        python_path: Folders of the worker's machine for the module search path.
        python_version: Major and minor version of the Python that pickled the job's code.
        penstock_version: The driver's version.
    """

    job: str
    python_version: str
    penstock_version: str
    files: tuple[ShippedPath, ...] = ()
    archives: tuple[ShippedPath, ...] = ()
    requirements: ShippedPath | None = None
    packages: ShippedPath | None = None
    executable: str | None = None
    cached_files: dict[str, ShippedPath] = {}
    program: ShippedPath | None = None
    python_path: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether a worker needs nothing of it."""
        return not (
            self.files
            or self.archives
            or self.requirements
            or self.executable
            or self.cached_files
            or self.program
            or self.python_path
        )


manifest_of: Final = converter(DependencyManifest)
"""Creates a manifest from the dictionaries of a launch specification."""
