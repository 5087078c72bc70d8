"""The options that a process sets for its programs: in files, then in an environment variable.

Later ones override earlier ones: ``config.yaml`` in the folder FLINK_CONF_DIR, read only if the
program runs as PyFlink; ``penstock.yaml``, then the table ``tool.penstock`` of ``pyproject.toml``,
both in the working directory; ``config.yaml`` in the folder PENSTOCK_CONF_DIR; and the JSON object
in PENSTOCK_CONFIGURATION, which ``penstock run`` sets.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from penstock import pyflink_alias
from penstock.common.configuration import Configuration
from penstock.common.options import cluster
from penstock.common.options.check import check_values
from penstock.datastream.configuration_file import read_configuration_file, read_project_file
from penstock.datastream.execution import CONFIGURATION_VARIABLE
from penstock.errors import ConfigurationError

FLINK_FOLDER_VARIABLE: Final = "FLINK_CONF_DIR"
FOLDER_VARIABLE: Final = "PENSTOCK_CONF_DIR"
FILE: Final = "config.yaml"
OWN_FILE: Final = "penstock.yaml"
PROJECT_FILE: Final = "pyproject.toml"

_OF_FLINKS_OWN_PROCESSES: Final = (
    cluster.TARGET.key,
    cluster.BIND_HOST.key,
    cluster.RPC_ADDRESS.key,
    cluster.RPC_PORT.key,
    cluster.ATTACHED.key,
)
"""Options that locate a Flink installation's own cluster, not penstock's."""


def process_configuration() -> Configuration:
    """Return the options of this process.

    Raises:
        ConfigurationError: A file does not exist, or one of them is malformed.
    """
    values: dict[str, Any] = {}
    for _, options in configured_layers():
        values |= options
    return Configuration.from_dict(values)


def configured_layers() -> list[tuple[str, dict[str, Any]]]:
    """Return the options of this process by place; later places override earlier ones.

    Raises:
        ConfigurationError: A file does not exist, one of them is malformed, or a value in one of
            them is invalid, even if another place overrides it.
    """
    layers = _layers()
    for where, options in layers:
        try:
            check_values(Configuration.from_dict(options).to_dict())
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
    return layers


def _layers() -> list[tuple[str, dict[str, Any]]]:
    layers: list[tuple[str, dict[str, Any]]] = []
    if pyflink_alias.is_installed():
        options = _from_folder(FLINK_FOLDER_VARIABLE)
        for key in _OF_FLINKS_OWN_PROCESSES:
            options.pop(key, None)
        layers.append((f"{FILE} in {FLINK_FOLDER_VARIABLE}", options))
    own, project = Path.cwd() / OWN_FILE, Path.cwd() / PROJECT_FILE
    if own.is_file():
        layers.append((OWN_FILE, dict(read_configuration_file(own))))
    if project.is_file():
        layers.append((PROJECT_FILE, dict(read_project_file(project))))
    layers.append((f"{FILE} in {FOLDER_VARIABLE}", _from_folder(FOLDER_VARIABLE)))
    layers.append((CONFIGURATION_VARIABLE, options_of_variable()))
    return layers


def _from_folder(variable: str) -> dict[str, Any]:
    folder = os.environ.get(variable)
    if not folder:
        return {}
    path = Path(folder) / FILE
    if not path.is_file():
        older = Path(folder) / "flink-conf.yaml"
        hint = f"; {older.name} is the form before Flink 2, write {FILE}" if older.exists() else ""
        raise ConfigurationError(f"{variable} is {folder!r}, which has no {FILE}{hint}")
    return dict(read_configuration_file(path))


def options_of_variable() -> dict[str, Any]:
    """Return the options in PENSTOCK_CONFIGURATION.

    Raises:
        ConfigurationError: It is not a JSON object of plain values.
    """
    text = os.environ.get(CONFIGURATION_VARIABLE)
    if not text:
        return {}
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{CONFIGURATION_VARIABLE} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigurationError(f"{CONFIGURATION_VARIABLE} must be a JSON object")
    for key, value in values.items():
        if not isinstance(value, (str, int, float)):
            raise ConfigurationError(
                f"{CONFIGURATION_VARIABLE}: invalid value {value!r} for {key}: expected a string, "
                "a number, true or false"
            )
    return values
