"""Checks and preparation of the table on the server before its changes can be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.postgres_cdc.description import KeyColumn
from penstock.connectors.postgres_cdc.server import lsn_text
from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.connectors.postgres_cdc.description import TableDescription
    from penstock.connectors.postgres_cdc.server import Connection

logger = logging.getLogger(__name__)

#: Types that the server orders as numbers; it orders a uuid as its text.
_NUMBERS: Final = ("smallint", "integer", "bigint")


def check_table(connection: Connection, source: TableDescription) -> None:
    """Check that the server sends the table's changes, before anything is created there.

    Raises:
        SourceError: The server does not send them; the error has the remedy.
    """
    (level,) = connection.rows("SHOW wal_level")[0]
    if level != "logical":
        raise SourceError(
            f"{connection.shown}: its wal_level is {level!r}, which does not log row changes; set "
            "wal_level = logical in postgresql.conf and restart the server"
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
            f"add one, or run ALTER TABLE {source.table_name} REPLICA IDENTITY FULL"
        )


def publish(connection: Connection, source: TableDescription) -> None:
    """Create the publication if it is missing.

    Raises:
        SourceError: The publication exists without the table.
    """
    name = connection.literal(source.publication)
    if not connection.rows(f"SELECT FROM pg_publication WHERE pubname = {name}"):
        connection.rows(
            f"CREATE PUBLICATION {connection.name(source.publication)} FOR TABLE "
            f"{_relation(connection, source)} WITH (publish = 'insert, update, delete', "
            "publish_via_partition_root = true)"
        )
        logger.info("created the publication %s of %s", source.publication, source.table_name)
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
    """Return the position of the slot's first changes; create the slot if it is missing.

    Raises:
        SourceError: The slot belongs to another plug-in or database.
    """
    slot = connection.slot(source.slot)
    if slot is None:
        lsn = connection.create_slot(source.slot)
        logger.info("created the replication slot %s", source.slot)
        return lsn
    ((database,),) = connection.rows("SELECT current_database()")
    if slot.plugin != "pgoutput" or slot.database != database:
        raise SourceError(
            f"{connection.shown}: the replication slot {source.slot} is of the plug-in "
            f"{slot.plugin or 'none'!r} and the database {slot.database!r}; name another slot"
        )
    return slot.confirmed_lsn


def check_slot(connection: Connection, source: TableDescription, lsn: int) -> None:
    """Check that the slot has all changes from a position on.

    Raises:
        SourceError: Changes are missing; the error has the remedy.
    """
    slot, name = connection.slot(source.slot), source.slot
    if slot is None:
        raise SourceError(
            f"{connection.shown}: the replication slot {name} is gone, and with it the changes "
            f"of {source.table_name} from {lsn_text(lsn)} on; start the job "
            "without its checkpoints"
        )
    if slot.confirmed_lsn > lsn:
        raise SourceError(
            f"{connection.shown}: the replication slot {name} is at "
            f"{lsn_text(slot.confirmed_lsn)}, but the job continues from {lsn_text(lsn)}: a later "
            "checkpoint of the job was completed, or another job uses the slot; start the job "
            "from its last checkpoint, or without its state"
        )


def key_of_table(connection: Connection, source: TableDescription) -> tuple[KeyColumn, ...]:
    """Return the key that changes have of their rows; empty if the table has none."""
    table = connection.literal(_relation(connection, source))
    found = connection.rows(
        "SELECT attname, format_type(atttypid, -1), CASE WHEN attcollation <> 0 THEN "
        "attcollation::regcollation::text END FROM pg_class c JOIN pg_index i ON "
        "i.indrelid = c.oid AND CASE relreplident WHEN 'i' THEN indisreplident ELSE indisprimary "
        "END, unnest(indkey) WITH ORDINALITY k(number, place) JOIN pg_attribute a ON "
        f"a.attnum = k.number WHERE c.oid = {table}::regclass AND a.attrelid = c.oid "
        "AND place <= indnkeyatts ORDER BY place"
    )
    return tuple(KeyColumn(name, kind, collation) for name, kind, collation in found)


def snapshot_query(
    connection: Connection,
    source: TableDescription,
    key: tuple[KeyColumn, ...],
    behind: tuple[str, ...] | None,
) -> str:
    """Return the query of the rows that follow a key, in the order of the keys.

    The server uses the order of the key's index if it considers that quicker than sorting.

    Args:
        connection: Connection that quotes names and values.
        source: The table, and its columns that are read.
        key: The key of the rows; without one they have no order.
        behind: The key after which the query begins, or None.
    """
    columns = ", ".join(connection.name(name) for name in columns_read(source, key))
    query = f"SELECT {columns} FROM {_relation(connection, source)}"
    order = ", ".join(connection.name(column.name) for column in key)
    if behind is not None:
        query += f" WHERE ROW({order}) > {_place(connection, key, behind)}"
    return f"{query} ORDER BY {order}" if key else query


def columns_read(source: TableDescription, key: tuple[KeyColumn, ...]) -> list[str]:
    """Return the columns of `snapshot_query`."""
    return list(dict.fromkeys([*source.columns, *(column.name for column in key)]))


def is_compared_here(key: tuple[KeyColumn, ...]) -> bool:
    """Return whether `order_of` orders keys as the server does."""
    return all(column.kind in (*_NUMBERS, "uuid") for column in key)


def order_of(key: tuple[KeyColumn, ...], texts: tuple[str, ...]) -> tuple[int | str, ...]:
    """Return a value that compares as the server compares keys of numbers and UUIDs."""
    return tuple(
        int(text) if column.kind in _NUMBERS else text
        for column, text in zip(key, texts, strict=True)
    )


def count_before(
    connection: Connection,
    key: tuple[KeyColumn, ...],
    bounds: list[tuple[str, ...]],
    texts: tuple[str, ...],
) -> int:
    """Return the number of bounds that the server orders before a key."""
    place = _place(connection, key, texts)
    are_before = (f"({_place(connection, key, bound)} < {place})::int" for bound in bounds)
    return int(number_of(connection, " + ".join(are_before)))


def _place(connection: Connection, key: tuple[KeyColumn, ...], texts: tuple[str, ...]) -> str:
    """Return the SQL that the server compares with the columns of a key."""
    return "ROW({})".format(
        ", ".join(
            f"{connection.literal(text)}::{column.kind}"
            + ("" if column.collation is None else f" COLLATE {column.collation}")
            for column, text in zip(key, texts, strict=True)
        )
    )


def number_of(connection: Connection, expression: str) -> Any:
    """Return the number to which the server evaluates an expression."""
    ((found,),) = connection.rows(f"SELECT {expression}")
    return found


def _relation(connection: Connection, source: TableDescription) -> str:
    return f"{connection.name(source.schema)}.{connection.name(source.table)}"
