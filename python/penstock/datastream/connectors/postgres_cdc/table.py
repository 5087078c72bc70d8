"""The table as the server has it: what must hold before its changes can be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.datastream.connectors.postgres_cdc.description import TableDescription
    from penstock.datastream.connectors.postgres_cdc.server import Connection

logger = logging.getLogger(__name__)


def check_table(connection: Connection, source: TableDescription) -> None:
    """Looks whether the server sends the table's changes, before anything is made there.

    Raises:
        SourceError: It does not, and what to do.
    """
    (level,) = connection.rows("SHOW wal_level")[0]
    if level != "logical":
        raise SourceError(
            f"{connection.shown}: its wal_level is {level!r}, which has no changes of rows; set "
            "wal_level = logical in postgresql.conf and start the server again"
        )
    table = _relation(connection, source)
    found = connection.rows(
        "SELECT relreplident, EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)"
        f" FROM pg_class c WHERE oid = to_regclass({connection.literal(table)})"
    )
    if not found:
        raise SourceError(f"{connection.shown}: there is no table {source.table_name}")
    columns = {
        name
        for (name,) in connection.rows(
            f"SELECT attname FROM pg_attribute WHERE attrelid = {connection.literal(table)}"
            "::regclass AND attnum > 0 AND NOT attisdropped"
        )
    }
    missing = [name for name in source.columns if name not in columns]
    if missing:
        raise SourceError(
            f"{connection.shown}: {source.table_name} has no column {missing[0]!r}; it has "
            f"{', '.join(sorted(columns))}"
        )
    identity, has_primary_key = found[0]
    if identity == "n" or (identity == "d" and has_primary_key != "t"):
        raise SourceError(
            f"{connection.shown}: {source.table_name} has no primary key and no other replica "
            "identity, without which PostgreSQL refuses updates and deletes of published tables; "
            f"add one, or say ALTER TABLE {source.table_name} REPLICA IDENTITY FULL"
        )


def publish(connection: Connection, source: TableDescription) -> None:
    """Makes the publication unless it is there.

    Raises:
        SourceError: It is there, and the table is none of it.
    """
    name = connection.literal(source.publication)
    if not connection.rows(f"SELECT FROM pg_publication WHERE pubname = {name}"):
        connection.rows(
            f"CREATE PUBLICATION {connection.name(source.publication)} FOR TABLE "
            f"{_relation(connection, source)} WITH (publish = 'insert, update, delete', "
            "publish_via_partition_root = true)"
        )
        logger.info("made the publication %s of %s", source.publication, source.table_name)
        return
    schema, table = (connection.literal(part) for part in (source.schema, source.table))
    if not connection.rows(
        f"SELECT FROM pg_publication_tables WHERE pubname = {name} AND schemaname = {schema} "
        f"AND tablename = {table}"
    ):
        raise SourceError(
            f"{connection.shown}: the publication {source.publication} does not have the table "
            f"{source.table_name}; ALTER PUBLICATION {source.publication} ADD TABLE "
            f"{source.table_name}, or name another publication"
        )


def slot_position(connection: Connection, source: TableDescription) -> int:
    """From where on the slot has changes; it is made unless it is there.

    Raises:
        SourceError: A slot of the name is of another kind or database.
    """
    slot = connection.slot(source.slot)
    if slot is None:
        lsn = connection.create_slot(source.slot)
        logger.info("made the replication slot %s", source.slot)
        return lsn
    ((database,),) = connection.rows("SELECT current_database()")
    if slot.plugin != "pgoutput" or slot.database != database:
        raise SourceError(
            f"{connection.shown}: the replication slot {source.slot} is of the plug-in "
            f"{slot.plugin or 'none'!r} and the database {slot.database!r}; name another slot"
        )
    return slot.confirmed_lsn


def snapshot_query(connection: Connection, source: TableDescription) -> str:
    """What reads all rows of the table."""
    columns = ", ".join(connection.name(name) for name in source.columns)
    return f"SELECT {columns} FROM {_relation(connection, source)}"


def number_of(connection: Connection, expression: str) -> Any:
    """What the server makes of an expression."""
    ((found,),) = connection.rows(f"SELECT {expression}")
    return found


def _relation(connection: Connection, source: TableDescription) -> str:
    return f"{connection.name(source.schema)}.{connection.name(source.table)}"
