"""Readers of files of options: ``config.yaml`` as Flink writes it, and ``pyproject.toml``.

Keys are nested, flat, or both.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.common.options.quoting import join_list
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def read_configuration_file(path: Path) -> dict[str, str]:
    """Return the options of a YAML file, with nested keys joined by dots and values as written.

    A key without a value is not set.

    Raises:
        ConfigurationError: The file cannot be read, is not YAML, or sets a key twice.
    """
    # Few programs have such a file, and importing yaml takes longer than the rest of this module.
    import yaml

    try:
        # Options parse their own values; YAML's own types would turn "on" into true.
        root = yaml.compose(path.read_text("utf-8"), yaml.BaseLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    options: dict[str, str] = {}
    if root is not None:
        _add(root, "", options, path)
    return options


def read_project_file(path: Path) -> dict[str, str]:
    """Return the options in the table ``tool.penstock`` of a ``pyproject.toml``, if it has one.

    Raises:
        ConfigurationError: The file cannot be read, is not TOML, or sets a key twice.
    """
    import tomllib

    try:
        text = path.read_text("utf-8")
        if "penstock" not in text:
            return {}
        found = _parsed(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    tools = found.get("tool", {})
    options: dict[str, str] = {}
    _add_table(tools.get("penstock", {}) if isinstance(tools, dict) else {}, "", options, path)
    return options


@lru_cache(maxsize=1)
def _parsed(text: str) -> dict[str, Any]:
    """Parse the last text only once: each environment of a program reads this file."""
    import tomllib

    return tomllib.loads(text)


def _add_table(value: Any, key: str, options: dict[str, str], path: Path) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _add_table(inner, f"{key}.{name}" if key else name, options, path)
        return
    if not key or not isinstance(value, str | int | float | list):
        raise ConfigurationError(
            f"{path}, [tool.penstock]: invalid value {value!r} for {key or 'the table'}: expected "
            "a string, a number, true, false, or a list of strings"
        )
    if isinstance(value, list) and not all(isinstance(part, str) for part in value):
        raise ConfigurationError(
            f"{path}, [tool.penstock]: {key}: the items of a list must be strings, got {value!r}"
        )
    if key in options:
        raise ConfigurationError(f"{path}, [tool.penstock]: {key} is set twice")
    if isinstance(value, list):
        options[key] = join_list(value)
    else:
        options[key] = str(value).lower() if isinstance(value, bool) else str(value)


def _add(node: Any, key: str, options: dict[str, str], path: Path) -> None:
    if node.id == "mapping":
        for name, value in node.value:
            if name.id != "scalar":
                raise _error(path, name, "a key must be a string, not a list or a mapping")
            _add(value, f"{key}.{name.value}" if key else name.value, options, path)
        return
    if not key:
        raise _error(path, node, "expected options as 'key: value'")
    if node.id == "sequence":
        if any(part.id != "scalar" for part in node.value):
            raise _error(path, node, f"{key}: the items of a list must be strings")
        text = join_list([part.value for part in node.value])
    elif node.value in ("", "~", "null") and node.style is None:
        return
    else:
        text = node.value
    if key in options:
        raise _error(path, node, f"{key} is set twice")
    options[key] = text


def _error(path: Path, node: Any, message: str) -> ConfigurationError:
    return ConfigurationError(f"{path}, line {node.start_mark.line + 1}: {message}")
