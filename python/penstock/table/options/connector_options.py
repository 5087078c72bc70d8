"""Options of connectors and formats: parses values, and checks for missing and unknown options."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.options.value_types import (
    BooleanType,
    DurationType,
    IntegerType,
    MemorySizeType,
)
from penstock.table.exceptions import ValidationException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def text(given: str) -> str:
    """Return a text unchanged."""
    return given


def boolean(given: str) -> bool:
    """Parse a boolean.

    Raises:
        ValueError: The text is malformed.
    """
    parsed: bool = BooleanType().parse(given)
    return parsed


def integer(given: str) -> int:
    """Parse an integer.

    Raises:
        ValueError: The text is malformed.
    """
    try:
        return int(given.strip())
    except ValueError:
        raise ValueError("expected an integer") from None


def positive(given: str) -> int:
    """Parse an integer of at least 1.

    Raises:
        ValueError: The text is malformed.
    """
    parsed: int = IntegerType(1).parse(given)
    return parsed


def natural(given: str) -> int:
    """Parse an integer of at least 0.

    Raises:
        ValueError: The text is malformed.
    """
    parsed: int = IntegerType(0).parse(given)
    return parsed


def duration_ms(given: str) -> int:
    """Parse a duration such as ``10 s``, to ms.

    Raises:
        ValueError: The text is malformed.
    """
    parsed: int = DurationType().parse(given)
    return parsed


def memory_bytes(given: str) -> int:
    """Parse a size such as ``128 MB``, to bytes.

    Raises:
        ValueError: The text is malformed.
    """
    parsed: int = MemorySizeType().parse(given)
    return parsed


def character(given: str) -> str:
    r"""Parse a single character; escapes such as ``\t`` have the same meaning as in Java.

    Raises:
        ValueError: The number of characters is not 1.
    """
    escaped = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\b": "\b", "\\f": "\f"}
    given = escaped.get(given, given)
    if given.startswith("\\u") and len(given) == 6:
        given = chr(int(given[2:], 16))
    if len(given) != 1:
        raise ValueError("expected one character")
    return given


@dataclass(frozen=True)
class Choice:
    """A parser that accepts several words, in any case.

    Attributes:
        values: The words.
    """

    values: tuple[str, ...]

    def __call__(self, given: str) -> str:
        """Return the word as declared.

        Raises:
            ValueError: The text is not one of them.
        """
        for value in self.values:
            if given.strip().lower() == value.lower():
                return value
        raise ValueError(f"expected one of {', '.join(self.values)}")


def choice(*values: str) -> Choice:
    """Return a parser that accepts several words, in any case."""
    return Choice(values)


@dataclass(frozen=True)
class OptionSpec:
    """An option.

    Attributes:
        parse: Parses the value; raises ValueError.
        default: The value if it is not set.
        is_required: Whether it must be set.
    """

    parse: Callable[[str], Any]
    default: Any = None
    is_required: bool = False


def read_options(
    owner: str,
    given: Mapping[str, str],
    specs: Mapping[str, OptionSpec],
    *,
    prefixes: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the values of all options.

    Args:
        owner: The owner of the options, for errors: ``connector 'kafka'``.
        given: The texts by key.
        specs: The options by key.
        prefixes: The prefixes of keys that are not checked here.

    Raises:
        ValidationException: An option is missing or unknown, or a value is invalid; the message
            lists the known ones.
    """
    prefixes = tuple(prefixes)
    unknown = [key for key in given if key not in specs and not key.startswith(prefixes)]
    if unknown:
        near = difflib.get_close_matches(unknown[0], specs, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ValidationException(
            f"Unsupported options of {owner}: {', '.join(sorted(unknown))}.{hint} Supported "
            f"options: {_listed(specs, prefixes)}"
        )
    missing = [key for key, spec in specs.items() if spec.is_required and key not in given]
    if missing:
        raise ValidationException(
            f"Missing required options of {owner}: {', '.join(missing)}. Supported options: "
            f"{_listed(specs, prefixes)}"
        )
    values: dict[str, Any] = {}
    for key, spec in specs.items():
        if key not in given:
            values[key] = spec.default
            continue
        try:
            values[key] = spec.parse(given[key])
        except ValueError as error:
            raise ValidationException(
                f"Invalid value '{given[key]}' for option '{key}' of {owner}: {error}"
            ) from None
    return values


def _listed(specs: Mapping[str, OptionSpec], prefixes: tuple[str, ...]) -> str:
    return ", ".join([*sorted(specs), *(f"{prefix}*" for prefix in prefixes)])
