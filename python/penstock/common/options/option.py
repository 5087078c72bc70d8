"""Option: one key with its type, default and meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from penstock.common.configuration import Configuration
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.options.value_types import ValueType

T = TypeVar("T")
Scope = Literal["cluster", "job"]


class Option(Generic[T]):
    """A key of the configuration.

    Attributes:
        key: The key.
        value_type: The type of the value.
        default: The value if none is set.
        meaning: Its effect, in one line of Markdown.
        alternate_keys: Older keys; they apply if `key` is not set, the first one first.
        default_text: The default as the table of options shows it.
        scope: ``cluster``, set where a cluster is started and the same for all of its jobs, or
            ``job``.
        awaits: The reason why the option has no effect; empty if it has one.
    """

    def __init__(
        self,
        key: str,
        value_type: ValueType[T],
        default: T,
        meaning: str,
        *,
        alternate_keys: tuple[str, ...] = (),
        default_text: str | None = None,
        scope: Scope = "job",
        awaits: str = "",
    ) -> None:
        """Declare an option; only in the modules of this package."""
        self.key = key
        self.value_type = value_type
        self.default = default
        self.meaning = meaning
        self.alternate_keys = alternate_keys
        self.scope = scope
        self.awaits = awaits
        if default_text is None:
            default_text = "" if default is None else value_type.text(default)
        self.default_text = default_text

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key and its alternates, in the order of precedence."""
        return (self.key, *self.alternate_keys)

    def is_set(self, configuration: Configuration | Mapping[str, str]) -> bool:
        """Return whether the configuration has a value for it."""
        return self._found(configuration) is not None

    def read(self, configuration: Configuration | Mapping[str, str]) -> T:
        """Return the value, or the default.

        Raises:
            ConfigurationError: The value is invalid; the message names key and value.
        """
        found = self._found(configuration)
        return self.default if found is None else self.parse(found[1], found[0])

    def parse(self, text: str, key: str | None = None) -> T:
        """Read the text of a value.

        Args:
            text: The text.
            key: The key under which it was found, for the error.

        Raises:
            ConfigurationError: It is invalid; names key and value.
        """
        try:
            return self.value_type.parse(text)
        except ValueError as error:
            raise ConfigurationError(f"{key or self.key}: {text!r}: {error}") from None

    def write(self, configuration: Configuration, value: Any) -> None:
        """Set the value.

        Raises:
            ConfigurationError: It is invalid; names key and value.
        """
        text = self.value_type.text(value)
        self.parse(text)
        configuration.set_string(self.key, text)

    def remove(self, configuration: Configuration) -> None:
        """Remove the value."""
        for key in self.keys:
            configuration.remove_config(key)

    def __repr__(self) -> str:
        return f"Option({self.key!r})"

    def _found(self, configuration: Configuration | Mapping[str, str]) -> tuple[str, str] | None:
        for key in self.keys:
            text = (
                configuration.get_string(key, None)
                if isinstance(configuration, Configuration)
                else configuration.get(key)
            )
            if text is not None:
                return key, text
        return None
