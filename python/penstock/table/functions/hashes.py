"""Hash functions."""

from __future__ import annotations

import hashlib
from typing import Any

from penstock.table import types
from penstock.table.exceptions import TableException
from penstock.table.functions.registry import define, rowwise

_BY_LENGTH = {224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _hash(name: str) -> Any:
    return rowwise(
        lambda value: hashlib.new(
            name, value.encode() if isinstance(value, str) else value, usedforsecurity=False
        ).hexdigest()
    )


def _sha2(value: str, length: int) -> str:
    name = _BY_LENGTH.get(length)
    if name is None:
        known = ", ".join(map(str, _BY_LENGTH))
        raise TableException(f"SHA2 has hashes of {known} bits, got {length}")
    return hashlib.new(name, value.encode(), usedforsecurity=False).hexdigest()


for _name in ("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"):
    _digits = 2 * hashlib.new(_name, usedforsecurity=False).digest_size
    define(_name, "textual", types.CharType(_digits), _hash(_name))
define("SHA2", "text int", types.VarCharType(128), rowwise(_sha2))
