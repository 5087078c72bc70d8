"""TableConfig: the options of a table environment."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import TYPE_CHECKING

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.configuration import Configuration
from penstock.common.options import user_code
from penstock.common.options.value_types import DurationType
from penstock.errors import ConfigurationError, WrongArgumentError
from penstock.table.options.table_options import (
    CODE_LENGTH,
    LOCAL_TIME_ZONE,
    STATE_TTL,
    check_inherited_options,
    check_table_option,
)
from penstock.table.options.time_zones import zone_id
from penstock.table.sql_dialect import SqlDialect

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TableConfig"]

_PYTHON_EXECUTABLE = user_code.EXECUTABLE.key


class TableConfig(MissingMethods):
    """Options of one table environment, by key.

    Args:
        root: The configuration of the underlying stream environment, which own options override.

    Raises:
        ConfigurationError: The value of a table option there is invalid or rejected.
    """

    def __init__(self, root: Configuration | None = None) -> None:
        self._root = Configuration() if root is None else root
        check_inherited_options(self._root.to_dict())
        self._configuration = Configuration()

    @staticmethod
    def get_default() -> TableConfig:
        """Return an empty configuration."""
        return TableConfig()

    def get(self, key: str, default_value: str | None) -> str | None:
        """Return the value of an option, or the default value if it is not set."""
        return self._configuration.get_string(key, self._root.get_string(key, default_value))

    def set(self, key: str, value: str) -> TableConfig:
        """Set an option.

        Raises:
            WrongArgumentError: Key or value is not a string.
            ConfigurationError: No option has that key, or the value is invalid.
        """
        for what, text in (("key", key), ("value", value)):
            if not isinstance(text, str):
                raise WrongArgumentError(
                    f"The {what} of an option must be a str, got {text!r} of type "
                    f"{type(text).__name__}"
                )
        check_table_option(key, value)
        self._configuration.set_string(key, value)
        return self

    @property
    def root(self) -> Configuration:
        """The underlying configuration, which own options override (beyond PyFlink)."""
        return self._root

    def reset(self, key: str | None = None) -> None:
        """Reset one option, or all of them (beyond PyFlink)."""
        for known in [*self._configuration.key_set()] if key is None else [key]:
            self._configuration.remove_config(known)

    def get_configuration(self) -> Configuration:
        """Return the options that were set here."""
        return self._configuration

    def add_configuration(self, configuration: Configuration) -> None:
        """Set all options of a configuration."""
        for key, value in configuration.to_dict().items():
            self.set(key, value)

    def to_map(self) -> Mapping[str, str]:
        """Return the options of this configuration and the underlying one."""
        return self._root.to_dict() | self._configuration.to_dict()

    def get_local_timezone(self) -> str:
        """Return the session's time zone; by default the machine's."""
        named = self.get(LOCAL_TIME_ZONE, "default")
        if named is not None and named != "default":
            return zone_id(named)
        return _machine_zone()

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set the session's time zone.

        Raises:
            ConfigurationError: No time zone has that name.
        """
        is_offset = re.match("[+-]", timezone_id) is not None
        self.set(LOCAL_TIME_ZONE, f"GMT{timezone_id}" if is_offset else timezone_id)

    def set_idle_state_retention(self, duration: datetime.timedelta) -> None:
        """Set how long the state of a key is retained after its last use; 0 for ever."""
        self.set(STATE_TTL, f"{int(duration / datetime.timedelta(milliseconds=1))} ms")

    def get_idle_state_retention(self) -> datetime.timedelta:
        """Return how long the state of a key is retained after its last use; 0 for ever."""
        text = self.get(STATE_TTL, "0 ms") or "0 ms"
        return datetime.timedelta(milliseconds=DurationType().parse(text))

    def get_max_generated_code_length(self) -> int:
        """Return an option without effect: no code is generated."""
        return int(self.get(CODE_LENGTH, "4000") or 4000)

    def set_max_generated_code_length(self, max_generated_code_length: int) -> None:
        """Set an option without effect: no code is generated."""
        self.set(CODE_LENGTH, str(max_generated_code_length))

    def get_sql_dialect(self) -> int:
        """Return the dialect, which is always ``SqlDialect.DEFAULT``."""
        return SqlDialect.DEFAULT

    def set_sql_dialect(self, sql_dialect: int) -> None:
        """Set the dialect.

        Raises:
            ConfigurationError: The argument is not ``SqlDialect.DEFAULT``.
        """
        if sql_dialect != SqlDialect.DEFAULT:
            raise ConfigurationError("penstock has no Hive dialect: use SqlDialect.DEFAULT")

    def set_python_executable(self, python_exec: str) -> None:
        """Set the interpreter of workers that run Python functions."""
        self.set(_PYTHON_EXECUTABLE, python_exec)

    def get_python_executable(self) -> str | None:
        """Return the interpreter of workers that run Python functions, or None."""
        return self.get(_PYTHON_EXECUTABLE, None)


def _machine_zone() -> str:
    """Return the machine's time zone by name, or by its offset from UTC."""
    import os
    from pathlib import Path

    named = os.environ.get("TZ", "").removeprefix(":")
    link = Path("/etc/localtime")
    if not named and link.is_symlink():
        named = str(link.readlink()).partition("zoneinfo/")[2]
    try:
        return zoneinfo.ZoneInfo(named or "UTC").key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return "UTC"
