"""Folders as bytes.

A folder is packed as a tar without times and owners, so that the same content has the same digest.
"""

from __future__ import annotations

import tarfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SKIPPED = frozenset({"__pycache__", ".git"})


def pack_folder(folder: Path, out: IO[bytes], entries: Iterable[Path] | None = None) -> None:
    """Write a folder as an uncompressed tar.

    Args:
        folder: The folder; names are relative to it.
        out: The target.
        entries: The files and folders below it to pack; all but byte code if None.
    """
    chosen = folder_entries(folder) if entries is None else entries
    with tarfile.open(fileobj=out, mode="w|", dereference=True) as archive:
        for path in chosen:
            archive.add(path, str(path.relative_to(folder)), recursive=False, filter=_anonymous)


def folder_entries(folder: Path) -> list[Path]:
    """Return everything below a folder but byte code and version control, in a fixed order.

    Symbolic links are followed, except into an ancestor.
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


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None  # a socket, pipe or device cannot be a dependency
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member
