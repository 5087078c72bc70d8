"""Paths of file systems, normalised as in Flink."""

from __future__ import annotations

import re

_PARTS = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?(?P<path>.*)")


def normalized_path(path: str) -> str:
    """Return a path without an empty authority, doubled slashes or a trailing slash.

    ``file:///data//points/`` becomes ``file:/data/points``.
    """
    parts = _PARTS.fullmatch(path)
    assert parts is not None, "every part of the pattern may be empty"
    folder = re.sub("/+", "/", parts["path"])
    if len(folder) > 1:
        folder = folder.removesuffix("/")
    scheme = f"{parts['scheme']}:" if parts["scheme"] else ""
    return scheme + (f"//{parts['host']}" if parts["host"] else "") + folder
