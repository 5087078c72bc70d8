"""The options of the shell: ``SET``, ``RESET``, and their values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import pipeline
from penstock.common.options.value_types import BooleanType, ChoiceType, IntegerType
from penstock.errors import ConfigurationError
from penstock.table.options.table_options import (
    COLUMN_WIDTH,
    MAX_COLUMN_WIDTH,
    MAX_ROWS,
    RESULT_MODE,
    VERBOSE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.table_environment.table_environment import TableEnvironment

RUNTIME_MODE: Final = pipeline.RUNTIME_MODE.key

#: SET key=value, the syntax of Flink 1.
_UNQUOTED: Final = re.compile(r"SET\s+([\w.-]+)\s*=\s*(.*)", re.IGNORECASE | re.DOTALL)

_UNQUOTED_RESET: Final = re.compile(r"RESET\s+([\w.-]+)", re.IGNORECASE)

_OWN: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    RESULT_MODE: (ChoiceType("tableau", "changelog", "table").parse, "tableau"),
    MAX_ROWS: (IntegerType(1).parse, "1000000"),
    VERBOSE: (BooleanType().parse, "false"),
}
"""Options of the shell itself, with their parsers and defaults."""


class ShellSettings:
    """The options of a shell and its environment.

    Args:
        environment: The environment.
    """

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._config = environment.get_config()
        self._own: dict[str, str] = {}
        self._was_streaming = environment.planner.is_streaming

    def get(self, key: str) -> Any:
        """Return the parsed value of an option of the shell."""
        parse, default = _OWN[key]
        return parse(self._own.get(key, default))

    def set(self, key: str, value: str) -> None:
        """Set an option.

        Raises:
            ConfigurationError: No option has the key, or the value is invalid.
        """
        if key in _OWN:
            try:
                _OWN[key][0](value)
            except ValueError as error:
                raise ConfigurationError(f"Invalid value {value!r} for {key!r}: {error}") from None
            self._own[key] = value
        elif key == COLUMN_WIDTH:
            self._config.set(MAX_COLUMN_WIDTH, value)
        elif key.startswith("sql-client."):
            raise ConfigurationError(
                f"penstock has no option {key!r}: options of the shell are "
                f"{', '.join([*sorted(_OWN), COLUMN_WIDTH])}"
            )
        else:
            self._config.set(key, value)
            if key == RUNTIME_MODE:
                self._environment.planner.is_streaming = value.strip().upper() != "BATCH"

    def reset(self, key: str | None) -> None:
        """Reset an option, or all of them, to the default."""
        if key is None:
            self._own.clear()
            self._config.reset()
        elif key in _OWN:
            self._own.pop(key, None)
        else:
            self._config.reset(MAX_COLUMN_WIDTH if key == COLUMN_WIDTH else key)
        if key in (None, RUNTIME_MODE):
            self._environment.planner.is_streaming = self._was_streaming

    def all(self) -> dict[str, str]:
        """Return the options that are set, by key."""
        return dict(sorted((dict(self._config.to_map()) | self._own).items()))


def unquoted_reset(text: str) -> str | None:
    """Return the key of ``RESET key`` without quotes; None for another statement."""
    found = _UNQUOTED_RESET.fullmatch(text.strip())
    return None if found is None else found[1]


def unquoted_setting(text: str) -> tuple[str, str] | None:
    """Parse ``SET key = value`` without quotes; return None for another statement."""
    found = _UNQUOTED.fullmatch(text.strip())
    if found is None:
        return None
    value = found[2].strip()
    is_quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return found[1], value[1:-1] if is_quoted else value
