"""Unpacks archives; whatever an archive contains, nothing is written outside of its folder.

The path of each member is resolved one name at a time: a link on the way must lead into the folder.
An existing file is removed before another takes its name, so that nothing is written through links.
Links themselves may lead anywhere, as those of an interpreter do.  Python's own filters are not
used: their behaviour depends on its patch level.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from penstock.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MEMBERS: Final = 1_000_000
MAX_RATIO: Final = 100
"""Largest allowed ratio of an archive's unpacked size to its own."""
ALWAYS_ALLOWED_BYTES: Final = 256 * 1024 * 1024
"""Unpacked size that any archive may have, however small it is."""

_COPIED_BYTES: Final = 1024 * 1024
"""Bytes in memory at a time; a member's header may not have more."""
_MAX_LINK_BYTES: Final = 4096

_TAR_COMPRESSIONS: Final[dict[bytes, Callable[[Path], Any]]] = {
    b"\x1f\x8b": gzip.open,
    **{b"BZh%d1AY&" % level: bz2.open for level in range(1, 10)},
    b"\xfd7zXZ": lzma.open,
    b"\x5d\x00\x00": lzma.open,
}
"""First bytes of compressed tars, and how they are opened; a plain tar begins with a name."""


def unpack(archive: Path, packing: str, folder: Path) -> None:
    """Unpack an archive into an existing folder.

    Raises:
        DependencyError: It is damaged, too large, or a member lies outside of the folder.
    """
    try:
        target = _Target(archive, folder)
        if packing == "zip":
            _unpack_zip(archive, target)
        else:
            _unpack_tar(archive, target)
    except DependencyError:
        raise
    except Exception as error:  # invalid bytes raise any error, and a full disk one too
        raise DependencyError(
            f"the archive {archive.name} cannot be unpacked: {type(error).__name__}: {error}"
        ) from error


class _Target:
    """The folder into which one archive is unpacked."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._name = archive.name
        self._root = Path(os.path.realpath(folder, strict=True))
        self._members = 0
        self._left_bytes = ALWAYS_ALLOWED_BYTES + MAX_RATIO * archive.stat().st_size

    def add_folder(self, name: str) -> None:
        known = self._members
        self._followed(name, _names(name))
        if self._members == known:  # It existed: a name may occur any number of times.
            self._count()

    def add_file(self, name: str, source: IO[bytes], mode: int, mtime: float | None = None) -> None:
        path = self._free_path(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as copy:
            while data := source.read(_COPIED_BYTES):
                self._left_bytes -= len(data)
                if self._left_bytes < 0:
                    raise self._refused(
                        name,
                        f"makes it more than {MAX_RATIO} times as large as it is packed "
                        f"(and more than {ALWAYS_ALLOWED_BYTES >> 20} MiB)",
                    )
                copy.write(data)
            # Without setuid, and not writable for others.
            os.fchmod(copy.fileno(), mode & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        if mtime is not None:
            os.utime(path, (mtime, mtime))

    def add_symbolic_link(self, name: str, target: str) -> None:
        self._free_path(name).symlink_to(target)

    def add_hard_link(self, name: str, target: str) -> None:
        *folders, last = _names(target) or [""]
        source = self._followed(name, folders) / last
        if source.is_symlink() or not source.is_file():
            raise self._refused(name, f"is a link to {target!r}, not to a file of the archive")
        path = self._free_path(name)
        path.hardlink_to(source)

    def bounded(self, content: IO[bytes]) -> IO[bytes]:
        """Return a tar that is not read beyond the bound; headers and skipped bytes count too."""
        bounded: Any = _BoundedTar(content, self._name, 2 * self._left_bytes)
        return cast("IO[bytes]", bounded)  # it has the methods that tarfile uses

    def refuse_kind(self, name: str) -> None:
        raise self._refused(name, "is neither a file, a folder nor a link")

    def _free_path(self, name: str) -> Path:
        """Return the path of a member after removing an existing file there."""
        self._count()
        names = _names(name)
        if not names or names[-1] == "..":
            raise self._refused(name, "has no name")
        path = self._followed(name, names[:-1]) / names[-1]
        if path.is_symlink() or path.exists():
            path.unlink()
        return path

    def _followed(self, name: str, folders: list[str]) -> Path:
        """Return the real path of folders; create missing ones."""
        current = self._root
        for each in folders:
            current = current.parent if each == ".." else current / each
            if current.is_symlink():
                # Strict: a path that cannot be resolved completely is rejected.
                current = Path(os.path.realpath(current, strict=True))
            if not current.is_relative_to(self._root):
                raise self._refused(name, "lies outside of its folder")
            if not current.is_dir():
                self._count()
                current.mkdir()
        return current

    def _count(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise DependencyError(
                f"the archive {self._name} has more than {MAX_MEMBERS} files and folders"
            )

    def _refused(self, name: str, why: str) -> DependencyError:
        return DependencyError(f"the archive {self._name} cannot be unpacked: {name!r} {why}")


class _BoundedTar:
    """The bytes of an uncompressed tar; `tarfile` reads headers of any size, and skips members."""

    def __init__(self, content: IO[bytes], name: str, limit_bytes: int) -> None:
        self._content = content
        self._name = name
        self._limit_bytes = limit_bytes

    def read(self, size: int) -> bytes:
        if size > _COPIED_BYTES:
            raise self._refused(f"a header of {size} bytes")
        self._check(self._content.tell() + size)
        return self._content.read(size)

    def seek(self, position: int) -> int:
        self._check(position)
        return self._content.seek(position)

    def tell(self) -> int:
        return self._content.tell()

    def _check(self, position: int) -> None:
        if position > self._limit_bytes:
            raise self._refused(f"more than {self._limit_bytes} bytes")

    def _refused(self, what: str) -> DependencyError:
        return DependencyError(f"the archive {self._name} cannot be unpacked: it has {what}")


def _names(path: str) -> list[str]:
    """Return the names in a member's path; a leading slash is dropped, as tar does."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _unpack_tar(archive: Path, target: _Target) -> None:
    with (
        _uncompressed(archive) as content,
        tarfile.open(fileobj=target.bounded(content), mode="r:") as tar,
    ):
        for member in tar:
            if member.isdir():
                target.add_folder(member.name)
            elif member.issym():
                target.add_symbolic_link(member.name, member.linkname)
            elif member.islnk():
                target.add_hard_link(member.name, member.linkname)
            elif member.isreg() and (source := tar.extractfile(member)) is not None:
                with source:
                    target.add_file(member.name, source, member.mode, member.mtime)
            else:
                target.refuse_kind(member.name)
            tar.members = []  # type: ignore[attr-defined]  # a million of them would be kept


def _uncompressed(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        begin = file.read(8)
    for magic, opened in _TAR_COMPRESSIONS.items():
        if begin.startswith(magic):
            content: IO[bytes] = opened(archive)
            return content
    return archive.open("rb")


def _unpack_zip(archive: Path, target: _Target) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            mode = member.external_attr >> 16
            if member.filename.startswith("/"):
                raise DependencyError(
                    f"the archive {archive.name} cannot be unpacked: {member.filename!r} lies "
                    "outside of its folder"
                )
            if member.is_dir():
                target.add_folder(member.filename)
                continue
            with packed.open(member) as source:
                if stat.S_ISLNK(mode):
                    link = source.read(_MAX_LINK_BYTES).decode()
                    target.add_symbolic_link(member.filename, link)
                else:
                    target.add_file(member.filename, source, mode or 0o600)
