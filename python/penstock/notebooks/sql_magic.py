"""``%%penstock_sql``: cells of SQL in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.table.shell.shell import SqlShell
    from penstock.table.table_environment.table_environment import TableEnvironment

MAGIC: Final = "penstock_sql"
_ENVIRONMENT: Final = "tables"


class SqlMagic:
    """Runs the statements of cells.

    All cells share one environment: the notebook's variable that is named after ``%%penstock_sql``,
    else its variable ``tables``, else one of their own.

    Args:
        ipython: The notebook's IPython.
    """

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._shells: dict[int, SqlShell] = {}
        self._own: TableEnvironment | None = None

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """Run a cell, or the rest of a line.

        Args:
            line: The name of an environment; without a cell the statements.
            cell: The statements.

        Returns:
            The rows of a query that is the last statement, as a frame of pandas; else None.

        Raises:
            NameError: The notebook has no environment of that name.
            TableException: A statement is invalid, or has failed.
        """
        from penstock.table.shell.shell import StatementError
        from penstock.table.sql.scripts import split_script

        name, text = (line.strip(), cell) if cell is not None else ("", line)
        shell = self._shell(self._environment(name))
        statements = split_script(text)
        try:
            for number, statement in enumerate(statements, 1):
                if number == len(statements) and _is_query(statement.placed):
                    return shell.environment.sql_query(statement.placed).to_pandas()
                shell.execute(statement)
        except StatementError as failed:
            raise failed.error from None
        return None

    def _environment(self, name: str) -> TableEnvironment:
        from penstock.table.environment_settings import EnvironmentSettings
        from penstock.table.table_environment.table_environment import TableEnvironment

        found: object = self._ipython.user_ns.get(name or _ENVIRONMENT)
        if isinstance(found, TableEnvironment):
            return found
        if name:
            raise NameError(f"the notebook has no TableEnvironment of the name {name!r}")
        if self._own is None:
            self._own = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        return self._own

    def _shell(self, environment: TableEnvironment) -> SqlShell:
        from penstock.table.shell.shell import SqlShell

        known = self._shells.get(id(environment))
        if known is None:
            known = self._shells[id(environment)] = SqlShell(environment, is_chatty=True)
        return known


def _is_query(text: str) -> bool:
    from penstock.table.exceptions import SqlParserException
    from penstock.table.sql.parsing import parse_statement
    from penstock.table.sql.statements import Query

    try:
        return isinstance(parse_statement(text), Query)
    except SqlParserException:  # a statement of the shell, or one whose error the shell raises
        return False


def load_ipython_extension(ipython: Any) -> None:
    """Register the magic; ``%load_ext penstock.notebooks`` calls it."""
    ipython.register_magic_function(SqlMagic(ipython), "line_cell", MAGIC)
