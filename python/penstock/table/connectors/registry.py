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
    "delta": "lakes.DeltaFactory",
    "elasticsearch-7": "elasticsearch.Elasticsearch7Factory",
    "elasticsearch-8": "elasticsearch.Elasticsearch8Factory",
    "filesystem": "filesystem.FilesystemFactory",
    "iceberg": "lakes.IcebergFactory",
    "jdbc": "jdbc.factory.JdbcFactory",
    "kafka": "kafka.KafkaFactory",
    "kinesis": "kinesis.KinesisFactory",
    "mongodb": "mongodb.factory.MongoFactory",
    "postgres-cdc": "postgres_cdc.PostgresCdcFactory",
    "print": "printing.PrintFactory",
    "upsert-kafka": "kafka.UpsertKafkaFactory",
}
"""The modules and classes of the factories."""


_ELSEWHERE: Final = {
    "elasticsearch": "Elasticsearch 6",
    "opensearch": "OpenSearch",
    "mongodb": "the changes of MongoDB (MongoCdcSource reads them in a program with streams)",
    "kinesis": "Amazon Kinesis by that name (use 'kinesis')",
    "firehose": "Amazon Data Firehose",
    "dynamodb": "Amazon DynamoDB",
    "mysql-cdc": "the changes of MySQL (debezium-json over kafka carries them)",
    "hbase": "HBase",
    "pulsar": "Pulsar",
    "doris": "Doris",
    "hudi": "Hudi",
    "paimon": "Paimon",
}
"""Products whose connectors are unsupported, by the prefixes of their names in Flink."""


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
    product = next((text for start, text in _ELSEWHERE.items() if name.startswith(start)), None)
    if path is None and product is not None:
        raise ValidationException(
            f"penstock has no connector for {product}, which option 'connector'='{name}' of table "
            f"{table} names. Supported connectors: {', '.join(connector_names())}"
        )
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
