"""Configuration: string keys and values, read with the type that the caller expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.options.quoting import split_list
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@checks_arguments
class Configuration(MissingMethods):
    """A set of keys with values; workers receive their text form."""

    def __init__(self, other: Configuration | None = None, j_configuration: None = None) -> None:
        """Create an empty configuration or a copy.

        Args:
            other: The configuration to copy.
            j_configuration: Exists only for PyFlink's signature; must be None.

        Raises:
            ConfigurationError: A Java configuration was passed.
        """
        if j_configuration is not None:
            raise ConfigurationError("penstock has no Java configurations: pass `other`")
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """Create a configuration from a dictionary."""
        configuration = cls()
        configuration._values.update(map)
        return configuration

    def get_string(self, key: str, default_value: str | None) -> str | None:
        """Return the text of a value, or the default."""
        return _text(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a string.

        Raises:
            ConfigurationError: The value is not a string.
        """
        given: object = value
        if not isinstance(given, str):
            raise ConfigurationError(f"{key!r}: set_string takes a string, got {value!r}")
        return self._set(key, value, str)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value as an integer, or the default.

        Raises:
            ConfigurationError: The value is not an integer.
        """
        return self._number(key, int) if key in self._values else default_value

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an integer."""
        return self._set(key, value, int)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the value as a boolean, or the default.

        Raises:
            ConfigurationError: The value is neither true nor false.
        """
        if key not in self._values:
            return default_value
        text = _text(self._values[key])
        if text.lower() not in ("true", "false"):
            raise ConfigurationError(f"{key}: {text!r} is neither true nor false")
        return text.lower() == "true"

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a boolean."""
        return self._set(key, value, bool)

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value as a number, or the default.

        Raises:
            ConfigurationError: The value is not a number.
        """
        return self._number(key, float) if key in self._values else float(default_value)

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        return self._set(key, value, float)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return the value as bytes, or the default.

        Raises:
            ConfigurationError: The value was not set as bytes.
        """
        if key not in self._values:
            return bytearray(default_value)
        value = self._values[key]
        if not isinstance(value, (bytes, bytearray)):
            raise ConfigurationError(f"{key}: {value!r} was not set as bytes")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes."""
        return self._set(key, value, bytearray)

    def key_set(self) -> set[str]:
        """Return the keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether the key is set."""
        return key in self._values

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Copy all values, in the type in which they were set, into a dictionary."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Copy all values of another configuration.

        Args:
            other: The source of the values.
            prefix: A prefix of every key.
        """
        self._values.update({(prefix or "") + key: v for key, v in other._values.items()})
        return self

    def remove_config(self, key: str) -> bool:
        """Remove a key; return whether it was set."""
        return self._values.pop(key, None) is not None

    def to_dict(self) -> dict[str, str]:
        """Return the keys with the text of their values."""
        return {key: _text(value) for key, value in self._values.items()}

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """Read a list: ``[a, b]``, or the older form with semicolons; None is an empty list.

        Raises:
            ConfigurationError: A quote is not closed.
        """
        try:
            return split_list(value or "")
        except ValueError as error:
            raise ConfigurationError(f"{value!r} is not a list: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in self.to_dict().items()) + "}"

    def _set(self, key: str, value: Any, value_type: type) -> Configuration:
        given: Any = key
        if not isinstance(given, str) or value is None:
            raise ConfigurationError(
                f"a key must be a string, and its value not None, got {key!r} and {value!r}"
            )
        self._values[key] = value if isinstance(value, value_type) else value_type(value)
        return self

    def _number(self, key: str, number: type[Any]) -> Any:
        try:
            return number(_text(self._values[key]))
        except ValueError:
            raise ConfigurationError(
                f"{key}: {self._values[key]!r} cannot be read as {number.__name__}"
            ) from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return str(value)
