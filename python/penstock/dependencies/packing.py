"""Folders as bytes, and archives as folders.

A folder travels as a tar without times and owners, so that the same content has the same digest.
What is unpacked stays inside of its folder, whatever names the archive has; permissions and
symbolic links are kept, as an interpreter inside of an archive needs them.
"""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from typing import IO, TYPE_CHECKING

from penstock.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_DAMAGES = (
    OSError,
    EOFError,
    RuntimeError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    UnicodeDecodeError,
)
"""What the archive modules raise over bytes that are none, and a disk over good ones."""
_SKIPPED = frozenset({"__pycache__", ".git"})


def pack_folder(folder: Path, out: IO[bytes], entries: Iterable[Path] | None = None) -> None:
    """Writes a folder as an uncompressed tar.

    Args:
        folder: What to pack; names are relative to it.
        out: Where to.
        entries: Which files and folders below it; all but byte code when None.
    """
    chosen = folder_entries(folder) if entries is None else entries
    with tarfile.open(fileobj=out, mode="w|", dereference=True) as archive:
        for path in chosen:
            archive.add(path, str(path.relative_to(folder)), recursive=False, filter=_anonymous)


def folder_entries(folder: Path) -> list[Path]:
    """Everything below a folder but byte code and version control, in a fixed order.

    Symbolic links are followed, except into a folder that they lie in.
    """
    found: list[Path] = []

    def walk(current: Path, ancestors: frozenset[Path]) -> None:
        for path in sorted(current.iterdir()):
            if path.name in _SKIPPED:
                continue
            if not path.is_dir():
                found.append(path)
            elif (real := path.resolve()) not in ancestors:
                found.append(path)
                walk(path, ancestors | {real})

    walk(folder, frozenset({folder.resolve()}))
    return found


def unpack(archive: Path, packing: str, folder: Path) -> None:
    """Unpacks an archive into a folder that exists.

    Raises:
        DependencyError: It is damaged, or a member lies outside of the folder.
    """
    try:
        if packing == "zip":
            _unpack_zip(archive, folder)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="tar")
    except _DAMAGES as error:
        raise DependencyError(
            f"the archive {archive.name} cannot be unpacked: {type(error).__name__}: {error}"
        ) from error


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None  # a socket, pipe or device is no dependency
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def _unpack_zip(archive: Path, folder: Path) -> None:
    """As `zipfile.ZipFile.extractall`, with permissions and symbolic links."""
    root = folder.resolve()
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            target = folder / member.filename
            if member.filename.startswith("/") or not target.resolve().is_relative_to(root):
                raise DependencyError(
                    f"the archive {archive.name} has a member outside of its folder: "
                    f"{member.filename!r}"
                )
            mode = member.external_attr >> 16
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISLNK(mode):
                target.symlink_to(packed.read(member).decode())
                continue
            with packed.open(member) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            if mode:
                target.chmod(stat.S_IMODE(mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR)
