"""Hash functions."""

from __future__ import annotations

import hashlib
from typing import Any

from penstock.table.functions import type_rules as rules
from penstock.table.functions.registry import define, nullable_result, rowwise

_BY_LENGTH = {224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _hash(name: str) -> Any:
    return rowwise(
        lambda value: hashlib.new(
            name, value.encode() if isinstance(value, str) else value, usedforsecurity=False
        ).hexdigest()
    )


def _sha2(value: str, length: int) -> str | None:
    name = _BY_LENGTH.get(length)
    if name is None:
        return None
    return hashlib.new(name, value.encode(), usedforsecurity=False).hexdigest()


for _name, _algorithm in {
    "MD5": "md5", "SHA1": "sha1", "SHA224": "sha224", "SHA256": "sha256", "SHA384": "sha384",
    "SHA512": "sha512",
}.items():  # fmt: skip
    define(_name, "textual", rules.string(), _hash(_algorithm))
define("SHA2", "text int", nullable_result(rules.string()), rowwise(_sha2))
