"""Methods of the table environment in PyFlink 1.

``insert_into`` and ``sql_update`` collect insertions, which ``execute`` runs as one job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InvalidProgramError
from penstock.flink_1.descriptors import ConnectTableDescriptor, Descriptor
from penstock.table.table_pipeline import TablePipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.flink_1.table_sources import CsvTableSink, CsvTableSource
    from penstock.table.table.table import Table
    from penstock.table.table_environment.table_environment import TableEnvironment

_CREATE: Final = "use create_temporary_table(name, TableDescriptor.for_connector(…)…build())"
_INSERT: Final = "use table.execute_insert(name)"


def _connect(env: TableEnvironment, connector_descriptor: Descriptor) -> ConnectTableDescriptor:
    return ConnectTableDescriptor(env, connector_descriptor)


def _register(env: TableEnvironment, name: str, table: CsvTableSource | CsvTableSink) -> None:
    table.register(env, name)


def _scan(env: TableEnvironment, *table_path: str) -> Table:
    return env.from_path(".".join(f"`{part}`" for part in table_path))


def _insert_into(env: TableEnvironment, table_path: str, table: Table) -> None:
    del env
    table.insert_into(table_path)


def _sql_update(env: TableEnvironment, stmt: str, query_config: None = None) -> None:
    del query_config
    if stmt.lstrip()[:6].upper() == "INSERT":
        made = TablePipeline(env.statements.insertion(stmt), env, None, stmt)
        env.pipelines[made] = None
    else:
        env.execute_sql(stmt)


def _execute(env: TableEnvironment, job_name: str | None = None) -> JobExecutionResult:
    sinks = [pipeline.sink for pipeline in env.pipelines]
    if not sinks:
        raise InvalidProgramError(
            "TableEnvironment.execute: there is no insertion: call table.insert_into(name) before"
        )
    env.pipelines.clear()
    environment = env.jobs.environment()
    env.jobs.add_sinks(sinks, environment)
    return environment.execute(job_name or f"insert-into_{','.join(sink.name for sink in sinks)}")


METHODS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "connect": (_connect, _CREATE),
    "execute": (_execute, f"{_INSERT}, or create_statement_set()"),
    "insert_into": (_insert_into, _INSERT),
    "register_table_sink": (_register, _CREATE),
    "register_table_source": (_register, _CREATE),
    "scan": (_scan, "use from_path(name)"),
    "sql_update": (_sql_update, "use execute_sql(statement)"),
}
"""The functions by name, and their replacements."""
