"""Typed configuration keys."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.errors import ConfigurationError

__all__ = [
    "ConfigOption",
    "ConfigOptions",
]

T = TypeVar("T")


class ConfigOption(NoJavaMembers, Generic[T]):
    """A key with the type and the default of its value."""

    def __init__(self, key: str, value_type: type[T], default_value: T | None) -> None:
        """Create an option; prefer `ConfigOptions.key`."""
        self._key = key
        self._value_type = value_type
        self._default_value = default_value

    def key(self) -> str:
        """Return the configuration key."""
        return self._key

    def value_type(self) -> type[T]:
        """Return the Python type of the value."""
        return self._value_type

    def default_value(self) -> T | None:
        """Return the default value, or None."""
        return self._default_value

    def has_default_value(self) -> bool:
        """Return whether there is a default."""
        return self._default_value is not None


@checks_arguments
class ConfigOptions(NoJavaMembers):
    """Builds options: ``ConfigOptions.key("a.b").int_type().default_value(3)``."""

    def __init__(self, key: str) -> None:
        """Start an option; use `key`."""
        self._key = key

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start an option with that key.

        Raises:
            ConfigurationError: The key is not a string.
        """
        given: object = key
        if not isinstance(given, str):
            raise ConfigurationError(f"the key of an option must be a string, got {key!r}")
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder(NoJavaMembers):
        """An option whose type is not chosen yet."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Make it a boolean option."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Make it an integer option."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Make it an integer option, as `int_type` does."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Make it an option whose value is a number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Make it an option whose value is a number, as `float_type` does."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Make it a string option."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    class TypedConfigOptionBuilder(NoJavaMembers, Generic[T]):
        """An option whose default is not chosen yet."""

        def __init__(self, key: str, value_type: type[Any]) -> None:
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """Return the option with a default."""
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T]:
            """Return the option without default."""
            return ConfigOption(self._key, self._value_type, None)
