"""Compilation of statements into stored plans, and planning of stored plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.table.catalog.definitions import table_text
from penstock.table.catalog.objects import CatalogBaseTable, CatalogFunction, ObjectIdentifier
from penstock.table.catalog.overlay import CatalogOverlay
from penstock.table.compiled_plan.stored_plan import StoredPlan
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions.type_rules import serializable
from penstock.table.options.table_options import (
    DML_SYNC,
    MAX_COLUMN_WIDTH,
    PARALLELISM,
    PLAN_COMPILED_OBJECTS,
    PLAN_RECOMPILE,
    PLAN_RESTORED_OBJECTS,
    REUSE_SOURCE,
    REUSE_SUB_PLAN,
    UID_GENERATION,
)
from penstock.table.plan.operator_ids import stateful_uids
from penstock.table.schema.schema import DeclaredColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.plan.nodes import Sink
    from penstock.table.table_context import TableContext

_NOT_STORED: Final = frozenset(
    [
        *(DML_SYNC, MAX_COLUMN_WIDTH, PARALLELISM),
        *(PLAN_COMPILED_OBJECTS, PLAN_RECOMPILE, PLAN_RESTORED_OBJECTS),
    ]
)
"""Table options that do not belong to a plan: they may differ each time it is executed."""

_UNSTORED_DEFAULTS: Final = {REUSE_SUB_PLAN: "true", REUSE_SOURCE: "true"}
"""Options that change operators: those that a plan lacks had their defaults."""

_MOST_SHOWN: Final = 5


def compiled(environment: TableContext, statement: str) -> StoredPlan:
    """Return the plan of an INSERT or a statement set.

    Raises:
        TableException: The statement is invalid, cannot run, or uses tables that only the program
            has; or operators have no ids.
    """
    config = environment.get_config()
    if (config.get(UID_GENERATION, None) or "").upper() == "DISABLED":
        raise ValidationException(
            f"A compiled plan needs operator ids, but {UID_GENERATION!r} is DISABLED: reset the "
            "option"
        )
    catalogs = CatalogOverlay(environment.catalogs)
    scope = environment.with_plan(catalogs, {})
    sinks = scope.statements.insertions(statement)
    what = (config.get(PLAN_COMPILED_OBJECTS, None) or "ALL").upper()
    found = list(catalogs.tables.items())
    for identifier, table in found:
        if table.is_inline:
            raise ValidationException(
                f"The plan cannot be stored: {identifier.as_summary_string()} exists only in the "
                "program, and no statement creates it; use a table or a view of SQL"
            )
    return StoredPlan(
        statement.strip(),
        _mode(environment),
        catalogs.current_catalog,
        catalogs.current_database,
        {
            key: value
            for key, value in sorted(config.to_map().items())
            if key.startswith("table.") and key not in _NOT_STORED
        },
        tuple(_stored(scope, i, table, what) for i, table in found if not table.is_view),
        tuple(_stored_view(scope, i, table) for i, table in found if table.is_view),
        tuple(
            {"name": i.to_list(), "class": function.class_name, "language": function.language}
            for i, function in catalogs.functions.items()
        ),
        tuple(_operators(scope, sinks)),
    )


def planned(environment: TableContext, plan: StoredPlan) -> tuple[TableContext, list[Sink]]:
    """Return the nodes of a plan, and the environment whose jobs run them.

    Raises:
        TableException: The plan does not fit the environment: its mode, a table or the operators
            differ, or a temporary table is missing.
    """
    if plan.mode != _mode(environment):
        raise TableException(
            f"The plan was compiled in {plan.mode.lower()} mode, but the environment is in "
            f"{_mode(environment).lower()} mode"
        )
    catalogs = CatalogOverlay(environment.catalogs)
    catalogs.current_catalog, catalogs.current_database = plan.catalog, plan.database
    scope = environment.with_plan(catalogs, {**_UNSTORED_DEFAULTS, **plan.options})
    what = (environment.get_config().get(PLAN_RESTORED_OBJECTS, None) or "ALL").upper()
    for stored in plan.tables:
        _restore(scope, catalogs, stored, what)
    for stored in plan.views:
        columns = [DeclaredColumn(*column) for column in stored["columns"]]
        view = CatalogBaseTable(
            Schema(columns), query=stored["query"], namespace=tuple(stored["namespace"])
        )
        catalogs.put_table(ObjectIdentifier(*stored["name"]), view)
    for stored in plan.functions:
        function = CatalogFunction(stored["class"], stored["language"])
        if catalogs.catalog_function(stored["name"]) is None:
            catalogs.put_function(ObjectIdentifier(*stored["name"]), function)
    sinks = scope.statements.insertions(plan.statement)
    _check_operators(plan.operators, _operators(scope, sinks))
    return scope, sinks


def _mode(environment: TableContext) -> str:
    return "STREAMING" if environment.planner.is_streaming else "BATCH"


def _stored(
    scope: TableContext, identifier: ObjectIdentifier, table: CatalogBaseTable, what: str
) -> dict[str, Any]:
    stored: dict[str, Any] = {"name": identifier.to_list()}
    if scope.catalogs.is_temporary(identifier):
        return {**stored, "temporary": True}
    if what == "IDENTIFIER":
        return stored
    return {**stored, "create": _created(scope, identifier, table, has_options=what == "ALL")}


def _created(
    scope: TableContext,
    identifier: ObjectIdentifier,
    table: CatalogBaseTable,
    *,
    has_options: bool = False,
) -> str:
    shown = table if has_options else replace(table, options={}, comment=None)
    schema = scope.planner.resolved(table)
    return table_text(identifier, shown, schema)


def _stored_view(
    scope: TableContext, identifier: ObjectIdentifier, view: CatalogBaseTable
) -> dict[str, Any]:
    namespace = view.namespace or (
        scope.catalogs.current_catalog,
        scope.catalogs.current_database,
    )
    columns = scope.planner.resolved(view).columns
    return {
        "name": identifier.to_list(),
        "query": view.query,
        "columns": [[column.name, serializable(column.data_type)] for column in columns],
        "namespace": list(namespace),
    }


def _restore(
    scope: TableContext, catalogs: CatalogOverlay, stored: Mapping[str, Any], what: str
) -> None:
    """Make a table of a plan available, or check that the one of the environment fits.

    Raises:
        TableException: The table is missing, or it has changed.
    """
    identifier = ObjectIdentifier(*stored["name"])
    name = identifier.as_summary_string()
    table = catalogs.find_table(identifier)
    text = None if what == "IDENTIFIER" else stored.get("create")
    if stored.get("temporary"):
        if table is None or not catalogs.is_temporary(identifier):
            raise TableException(
                f"The plan needs the temporary table {name}, which only the program can create: "
                "create it before the plan is loaded"
            )
        return
    if text is None:
        if table is None:
            raise TableException(
                f"The plan needs the table {name}, which the catalog lacks: the plan has only its "
                "name"
            )
        return
    of_plan = scope.statements.created_table(text)
    if what == "ALL_ENFORCED":
        catalogs.put_table(identifier, of_plan)
        return
    if table is None:
        if not of_plan.options:
            raise TableException(
                f"The plan needs the table {name}, which the catalog lacks: the plan has no "
                "options of it"
            )
        catalogs.put_table(identifier, of_plan)
        return
    then, now = (_created(scope, identifier, each) for each in (of_plan, table))
    if then != now:
        raise TableException(
            f"The table {name} has changed since the plan was compiled: alter the table back, or "
            f"compile the statement again.\nIn the plan: {then}\nIn the catalog: {now}"
        )


def _operators(scope: TableContext, sinks: Sequence[Sink]) -> list[str]:
    """Return the ids of the operators with state that insertions have."""
    job = scope.jobs.environment()
    scope.jobs.add_sinks(sinks, job)
    uids = stateful_uids(job)
    job.close()
    return uids


def _check_operators(of_plan: Sequence[str], present: Sequence[str]) -> None:
    gone = sorted(set(of_plan) - set(present))
    new = sorted(set(present) - set(of_plan))
    if not gone and not new:
        return
    lines = [f"- {uid}" for uid in gone[:_MOST_SHOWN]] + [f"+ {uid}" for uid in new[:_MOST_SHOWN]]
    raise TableException(
        "The plan does not fit: the statement has other operators now, and their state would not "
        "be found. Compile the statement again, or execute the plan with the version of penstock "
        "and the options that it was compiled with. Operators of the plan (-) and of today "
        "(+):\n" + "\n".join(lines)
    )
