"""Code and files that a program's configuration declares, checked.

A path is on the driver's machine, plain or as a ``file:`` URI.  The formats are Flink's:
``python.files`` and ``python.archives`` are separated by commas, an archive's folder and the folder
of a requirements file follow after a ``#``, cached files are
``name:NAME,path:PATH,executable:true;…``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from penstock.common.options import user_code
from penstock.common.options.quoting import join_map, split_map
from penstock.common.options.registry import options_of
from penstock.errors import ConfigurationError, InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.configuration import Configuration
    from penstock.common.options.option import Option

_KEYS: Final = frozenset(option.key for option in options_of(user_code))
PACKED_CODE: Final = (".zip", ".whl", ".egg")
ZIP_ARCHIVES: Final = (".zip", ".jar", ".whl", ".egg")
TAR_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/)")


@dataclass(frozen=True)
class Archive:
    """An archive and its target folder, relative to the working directory."""

    path: Path
    target: str


@dataclass(frozen=True)
class Requirements:
    """A requirements file, and the folder of its packages unless an index has them."""

    file: Path
    packages: Path | None


@dataclass(frozen=True)
class CachedFile:
    """A file or folder that functions access by a name."""

    name: str
    path: Path
    executable: bool


@dataclass(frozen=True)
class Dependencies:
    """Everything that a job's workers need besides penstock and the job's code."""

    files: tuple[Path, ...] = ()
    archives: tuple[Archive, ...] = ()
    requirements: Requirements | None = None
    executable: str | None = None
    cached_files: tuple[CachedFile, ...] = ()
    python_path: tuple[str, ...] = ()

    @staticmethod
    def from_configuration(configuration: Configuration | Mapping[str, str]) -> Dependencies:
        """Read the options.

        Raises:
            ConfigurationError: One is malformed, or names a path that does not exist.
        """
        requirements = user_code.REQUIREMENTS.read(configuration)
        executable = user_code.EXECUTABLE.read(configuration)
        return Dependencies(
            files=declared_files(configuration),
            archives=declared_archives(configuration),
            requirements=python_requirements(
                *_split_parameter(requirements), user_code.REQUIREMENTS.key
            )
            if requirements
            else None,
            executable=python_executable(executable, user_code.EXECUTABLE.key)
            if executable
            else None,
            cached_files=declared_cached_files(configuration),
            python_path=tuple(
                filter(None, user_code.PYTHON_PATH.read(configuration).split(os.pathsep))
            ),
        )


def declared_files(configuration: Configuration | Mapping[str, str]) -> tuple[Path, ...]:
    """Return the Python files of a configuration.

    Raises:
        ConfigurationError: One does not exist.
    """
    where = user_code.FILES.key
    files = (existing_path(entry, where) for entry in _entries(user_code.FILES, configuration))
    return tuple(dict.fromkeys(files))


def declared_archives(configuration: Configuration | Mapping[str, str]) -> tuple[Archive, ...]:
    """Return the archives of a configuration.

    Raises:
        ConfigurationError: One does not exist, or two have the same folder.
    """
    archives: dict[str, Archive] = {}
    where = user_code.ARCHIVES.key
    for entry in _entries(user_code.ARCHIVES, configuration):
        archive = python_archive(entry, None, where)
        known = archives.setdefault(archive.target, archive)
        if known != archive:
            raise ConfigurationError(
                f"{where}: {known.path} and {archive.path} are both to be unpacked to "
                f"{archive.target!r}"
            )
    return tuple(archives.values())


def declared_cached_files(
    configuration: Configuration | Mapping[str, str],
) -> tuple[CachedFile, ...]:
    """Return the cached files of a configuration.

    Raises:
        ConfigurationError: One is malformed or does not exist, or two have the same name.
    """
    files: dict[str, CachedFile] = {}
    where = user_code.CACHED_FILES.key
    for entry in user_code.CACHED_FILES.read(configuration):
        try:
            fields = split_map(entry)
        except ValueError as error:
            raise ConfigurationError(f"{where}: {entry!r}: {error}") from None
        if unknown := fields.keys() - {"name", "path", "executable"}:
            raise ConfigurationError(
                f"{where}: {entry!r}: {min(unknown)!r} is none of name, path and executable"
            )
        if not {"name", "path"} <= fields.keys():
            raise ConfigurationError(f"{where}: {entry!r} lacks its name or its path")
        executable = fields.get("executable", "false").lower()
        if executable not in ("true", "false"):
            raise ConfigurationError(f"{where}: {entry!r}: executable is true or false")
        file = cached_file(fields["name"], fields["path"], executable == "true", where)
        if files.setdefault(file.name, file) != file:
            raise ConfigurationError(f"{where}: two files have the name {file.name!r}")
    return tuple(files.values())


def python_archive(path: object, target: object, where: str) -> Archive:
    """Check an archive and its target folder.

    Args:
        path: The user's argument; may end with ``#`` and the target.
        target: The folder; the archive's own name if None.
        where: The call or the option, for the message.

    Raises:
        InvalidProgramError, ConfigurationError: It does not exist, has another format, or the
            target is outside of the working directory.
    """
    if target is None and isinstance(path, str) and "#" in path:
        path, target = _split_parameter(path)
    found = existing_path(path, where)
    if not found.is_file() or not found.name.lower().endswith(ZIP_ARCHIVES + TAR_ARCHIVES):
        raise _refusal(
            where,
            f"{str(found)!r} is not an archive: {' '.join(ZIP_ARCHIVES + TAR_ARCHIVES)} are known",
        )
    folder = found.name if target is None else target
    if not isinstance(folder, str) or not folder or "," in folder or "#" in folder:
        raise _refusal(where, f"the folder of an archive is a name, got {folder!r}")
    parts = PurePosixPath(folder).parts
    if folder.startswith("/") or ".." in parts or not parts:
        raise _refusal(
            where, f"an archive is unpacked below the working directory, not to {folder!r}"
        )
    return Archive(found, str(PurePosixPath(folder)))


def python_requirements(file: object, packages: object, where: str) -> Requirements:
    """Check a requirements file and the folder of its packages.

    Raises:
        InvalidProgramError, ConfigurationError: One of them does not exist.
    """
    found = existing_path(file, where)
    if not found.is_file():
        raise _refusal(where, f"{str(found)!r} is not a requirements file")
    folder = None if packages is None else existing_path(packages, where)
    if folder is not None and not folder.is_dir():
        raise _refusal(where, f"{str(folder)!r} is not a folder of packages")
    return Requirements(found, folder)


def python_executable(path: object, where: str) -> str:
    """Check the interpreter of the workers: absolute, a name on their PATH, or in an archive.

    Raises:
        InvalidProgramError, ConfigurationError: It is not a string, or empty.
    """
    if not isinstance(path, str) or not path.strip():
        raise _refusal(where, f"an interpreter is a path or a name, got {path!r}")
    return path


def cached_file(name: object, path: object, executable: object, where: str) -> CachedFile:
    """Check a file or folder that functions access by a name.

    Raises:
        InvalidProgramError, ConfigurationError: It does not exist, or the name is invalid.
    """
    if not isinstance(name, str) or not name:
        raise _refusal(where, f"the name of a cached file is a text, got {name!r}")
    return CachedFile(name, existing_path(path, where, forbidden=""), bool(executable))


def cached_files_option(files: tuple[CachedFile, ...]) -> tuple[str, ...]:
    """Return the option's value for some files."""
    return tuple(
        join_map(
            {
                "name": file.name,
                "path": str(file.path),
                "executable": str(file.executable).lower(),
            }
        )
        for file in files
    )


def existing_path(path: object, where: str, *, forbidden: str = ",#") -> Path:
    """Return the absolute form of a path of this machine.

    Raises:
        InvalidProgramError, ConfigurationError: It is not a path, is of another file system, or
            does not exist or cannot be read.
    """
    if not isinstance(path, (str, os.PathLike)) or not str(path).strip():
        raise _refusal(where, f"a path is a text, got {path!r}")
    text = str(path)
    if scheme := _SCHEME.match(text):
        if scheme[0].lower() != "file:":
            raise _refusal(
                where,
                f"{text!r} is on another file system; files are shipped from the driver's machine: "
                "copy it there",
            )
        text = unquote(urlsplit(text).path)
    if any(character in text for character in forbidden):
        raise _refusal(where, f"{text!r}: a path with ',' or '#' cannot be written in the option")
    found = Path(text).absolute()
    if not found.exists():
        raise _refusal(where, f"there is no file or folder {str(path)!r} (looked at {found})")
    if not os.access(found, os.R_OK):
        raise _refusal(where, f"{str(found)!r} cannot be read by this process")
    return found


def _refusal(where: str, message: str) -> InvalidProgramError | ConfigurationError:
    if where in _KEYS:
        return ConfigurationError(f"{where}: {message}")
    return InvalidProgramError(f"{where}: {message}")


def _entries(option: Option[str], configuration: Configuration | Mapping[str, str]) -> list[str]:
    parts = (part.strip() for part in option.read(configuration).split(","))
    return [part for part in parts if part]


def _split_parameter(entry: str) -> tuple[str, str | None]:
    path, separator, parameter = entry.partition("#")
    return path, parameter if separator else None
