"""Functions of encodings and URLs."""

from __future__ import annotations

import base64
import codecs
import re
import urllib.parse
from typing import Any

from penstock.table import types
from penstock.table.functions import type_rules as rules
from penstock.table.functions.registry import define, nullable_result, rowwise

STRING = rules.string()


def _to_base64(value: Any) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _from_base64(value: Any) -> str:
    # Java's decoder needs no padding at the end.
    padded = value + ("=" if isinstance(value, str) else b"=") * (-len(value) % 4)
    return base64.b64decode(padded, validate=True).decode("utf-8", "replace")


def _url_decode(value: str) -> str | None:
    if re.search(r"%(?![0-9A-Fa-f]{2})", value):
        return None
    return urllib.parse.unquote_plus(value)


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    try:
        found = urllib.parse.urlsplit(url)
        port = found.port
    except ValueError:
        return None
    if not found.scheme:
        return None
    netloc = found.netloc
    values: dict[str, str | None] = {
        "PROTOCOL": found.scheme or None,
        "HOST": re.sub(r":\d*$", "", netloc.rpartition("@")[2]) or None,
        "PATH": found.path,
        "QUERY": found.query or None,
        "REF": found.fragment or None,
        "AUTHORITY": netloc or None,
        "USERINFO": netloc.rpartition("@")[0] or None,
        "FILE": found.path + (f"?{found.query}" if found.query else ""),
    }
    del port
    value = values.get(part)
    if key is None or part != "QUERY":
        return None if key is not None else value
    match = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", value or "")
    return None if match is None else match[1]


define("TO_BASE64", "textual", STRING, rowwise(_to_base64))
define("FROM_BASE64", "textual", STRING, rowwise(_from_base64))
define(
    "URL_ENCODE",
    "text",
    nullable_result(STRING),
    rowwise(lambda v: urllib.parse.quote_plus(v, safe="*-._").replace("~", "%7E")),
)
define("URL_DECODE", "text", nullable_result(STRING), rowwise(_url_decode))
define("PARSE_URL", "text text text?", nullable_result(STRING), rowwise(_parse_url))


def _encoded(value: str, charset: str) -> bytes:
    """Encode a text; UTF-16 begins with a mark and the high bytes, as in Java."""
    if charset.upper() == "UTF-16":
        return codecs.BOM_UTF16_BE + value.encode("utf-16-be", "replace")
    return value.encode(charset, "replace")


def _decoded(value: bytes, charset: str) -> str:
    """Decode a text; UTF-16 without a mark begins with the high bytes, as in Java."""
    marks = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
    if charset.upper() == "UTF-16" and not bytes(value).startswith(marks):
        charset = "utf-16-be"
    return value.decode(charset, "replace")


define("ENCODE", "text text", types.VarBinaryType(rules.MAX_LENGTH), rowwise(_encoded))
define("DECODE", "bytes text", STRING, rowwise(_decoded))
