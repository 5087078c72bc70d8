"""Folders as bytes.

A folder travels as a tar without times and owners, so that the same content has the same digest.
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


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None  # a socket, pipe or device is no dependency
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member
