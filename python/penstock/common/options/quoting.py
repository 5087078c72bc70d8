"""Lists and maps within one text, in Flink's format of configuration values.

A list is ``a;b``, ``[a, b]`` or a line ``- a`` for each part, a map ``a:b,c:d`` or
``{a: b, c: d}``.  A part that begins with a quote ends with the next one; within quotes that quote
is doubled.
"""

from __future__ import annotations

from typing import Final

_QUOTES: Final = "'\""
_SEPARATORS: Final = ",;:"


def split_list(text: str) -> list[str]:
    """Return the parts of a list.

    Raises:
        ValueError: A quote is not closed.
    """
    stripped = text.strip()
    lines = [line.strip() for line in stripped.splitlines() if line.strip()]
    if lines and all(line.startswith("- ") for line in lines):
        return [_unquoted(line[2:]) for line in lines]
    if stripped.startswith("[") and stripped.endswith("]"):
        stripped, separator = stripped[1:-1].strip(), ","
    else:
        separator = ";"
    return [_unquoted(part) for part in _split(stripped, separator)] if stripped else []


def split_map(text: str) -> dict[str, str]:
    """Return the keys and values of a map.

    Raises:
        ValueError: A quote is not closed, or a part is not a key, a colon and a value.
    """
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        stripped = stripped[1:-1].strip()
    result = {}
    for pair in _split(stripped, ",") if stripped else ():
        parts = _split(pair, ":")
        if len(parts) != 2:
            raise ValueError(f"{pair.strip()!r} is not a key, a colon and a value")
        result[_unquoted(parts[0])] = _unquoted(parts[1])
    return result


def join_list(parts: list[str]) -> str:
    """Return the text of a list."""
    return ";".join(map(_quoted, parts))


def join_map(pairs: dict[str, str]) -> str:
    """Return the text of a map."""
    return ",".join(f"{_quoted(key)}:{_quoted(value)}" for key, value in pairs.items())


def _split(text: str, separator: str) -> list[str]:
    parts, start, position, opens = [], 0, 0, True
    while position < len(text):
        character = text[position]
        if opens and character in _QUOTES:
            position = _after_quoted(text, position)
            opens = False
            continue
        if character == separator:
            parts.append(text[start:position])
            start = position + 1
        opens = character in _SEPARATORS or (opens and character.isspace())
        position += 1
    return [*parts, text[start:]]


def _after_quoted(text: str, start: int) -> int:
    quote, position = text[start], start + 1
    while (end := text.find(quote, position)) >= 0:
        if text[end + 1 : end + 2] != quote:
            return end + 1
        position = end + 2
    raise ValueError(f"the quote before {text[start + 1 : start + 21]!r} is not closed")


def _quoted(text: str) -> str:
    plain = text == text.strip() != "" and not any(
        c in text for c in _SEPARATORS + _QUOTES + "{}[]"
    )
    return text if plain else "'" + text.replace("'", "''") + "'"


def _unquoted(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in _QUOTES:
        return stripped[1:-1].replace(stripped[0] * 2, stripped[0])
    return stripped
