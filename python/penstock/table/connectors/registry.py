"""The connectors of tables by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.table.exceptions import ValidationException

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.table.connectors.interfaces import ConnectorFactory

_FACTORIES: Final = {
    "blackhole": "printing.BlackholeFactory",
    "datagen": "datagen.DatagenFactory",
    "filesystem": "filesystem.FilesystemFactory",
    "jdbc": "jdbc.factory.JdbcFactory",
    "kafka": "kafka.KafkaFactory",
    "print": "printing.PrintFactory",
    "upsert-kafka": "kafka.UpsertKafkaFactory",
}
"""The modules and classes of the factories."""


def connector_names() -> list[str]:
    """Return the names of all connectors."""
    return sorted(_FACTORIES)


def connector_of(options: Mapping[str, str], table: str) -> ConnectorFactory:
    """Return the factory of a table's connector.

    Raises:
        ValidationException: The option ``connector`` is missing, or no connector has the name.
    """
    name = options.get("connector")
    if name is None:
        raise ValidationException(
            f"Table {table} has no option 'connector', so it can neither be read nor written. "
            f"Supported connectors: {', '.join(connector_names())}"
        )
    path = _FACTORIES.get(name)
    if path is None:
        raise ValidationException(
            f"Cannot discover a connector using option 'connector'='{name}' of table {table}. "
            f"Supported connectors: {', '.join(connector_names())}"
        )
    module, _, attribute = path.rpartition(".")
    factory: type[ConnectorFactory] = getattr(
        import_module(f"penstock.table.connectors.{module}"), attribute
    )
    return factory()
