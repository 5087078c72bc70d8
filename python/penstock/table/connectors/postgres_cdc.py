"""postgres-cdc: a PostgreSQL table with its changes, by logical replication."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from penstock.connectors.postgres_cdc.source import PostgresCdcSource
from penstock.table.connectors.interfaces import (
    ALL_KINDS,
    ConnectorFactory,
    TableContext,
    TableSource,
)
from penstock.table.connectors.row_sources import RowSource, stream_row_type
from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    choice,
    duration_ms,
    positive,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class PostgresCdcFactory(ConnectorFactory):
    """Creates sources of PostgreSQL tables with their changes."""

    identifier = "postgres-cdc"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "hostname": OptionSpec(text, is_required=True),
        "port": OptionSpec(positive, 5432),
        "username": OptionSpec(text, is_required=True),
        "password": OptionSpec(text, is_required=True),
        "database-name": OptionSpec(text, is_required=True),
        "schema-name": OptionSpec(text, is_required=True),
        "table-name": OptionSpec(text, is_required=True),
        "slot.name": OptionSpec(text, is_required=True),
        "decoding.plugin.name": OptionSpec(choice("pgoutput"), "pgoutput"),
        "changelog-mode": OptionSpec(choice("all", "upsert"), "all"),
        "scan.startup.mode": OptionSpec(choice("initial", "latest-offset", "snapshot"), "initial"),
        "scan.incremental.snapshot.enabled": OptionSpec(boolean, True),
        "connect.timeout": OptionSpec(duration_ms, 30_000),
        "debezium.plugin.name": OptionSpec(choice("pgoutput"), "pgoutput"),
        "debezium.publication.name": OptionSpec(text),
    }

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context)
        row_type = context.physical_type
        key = context.key_positions(row_type)
        is_upsert = values["changelog-mode"] == "upsert"
        if is_upsert and not key:
            raise ValidationException(
                f"Table {context.name} needs a PRIMARY KEY for 'changelog-mode' = 'upsert'"
            )
        user, password = (quote(values[name], safe="") for name in ("username", "password"))
        host = quote(values["hostname"], safe="[]:.")
        place = f"{host}:{values['port']}/{quote(values['database-name'], safe='')}"
        mode = values["scan.startup.mode"]
        with context.named_errors():
            source = PostgresCdcSource(
                f"postgresql://{user}:{password}@{place}",
                f"{values['schema-name']}.{values['table-name']}",
                stream_row_type(row_type),
                slot=values["slot.name"],
                publication=values["debezium.publication.name"],
                snapshot=mode != "latest-offset",
                bounded=mode == "snapshot",
                retry_timeout_ms=values["connect.timeout"],
            )
        return RowSource(
            "postgres-cdc",
            source,
            row_type,
            kinds=ALL_KINDS,
            is_bounded=mode == "snapshot",
            key=key if is_upsert else (),
            constants={
                "database_name": values["database-name"],
                "schema_name": values["schema-name"],
                "table_name": values["table-name"],
            },
            times=("op_ts",),
            refusal=(
                f"an update of {values['schema-name']}.{values['table-name']} has no old row: "
                f"ALTER TABLE {values['table-name']} REPLICA IDENTITY FULL in PostgreSQL, or set "
                "'changelog-mode' = 'upsert' and declare a PRIMARY KEY"
            ),
        )
