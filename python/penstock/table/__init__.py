"""SQL and the Table API, with PyFlink's names."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.common.types import (
        Row as Row,
    )
    from penstock.common.types import (
        RowKind as RowKind,
    )
    from penstock.table.changelog_mode import (
        ChangelogMode as ChangelogMode,
    )
    from penstock.table.compiled_plan.compiled_plan import (
        CompiledPlan as CompiledPlan,
    )
    from penstock.table.data_view import (
        DataView as DataView,
    )
    from penstock.table.data_view import (
        ListView as ListView,
    )
    from penstock.table.data_view import (
        MapView as MapView,
    )
    from penstock.table.environment_settings import (
        EnvironmentSettings as EnvironmentSettings,
    )
    from penstock.table.explain_detail import (
        ExplainDetail as ExplainDetail,
    )
    from penstock.table.expression.expression import (
        Expression as Expression,
    )
    from penstock.table.module import (
        Module as Module,
    )
    from penstock.table.module import (
        ModuleEntry as ModuleEntry,
    )
    from penstock.table.plan_reference import (
        PlanReference as PlanReference,
    )
    from penstock.table.result_kind import (
        ResultKind as ResultKind,
    )
    from penstock.table.schema.schema import (
        Schema as Schema,
    )
    from penstock.table.sql_dialect import (
        SqlDialect as SqlDialect,
    )
    from penstock.table.statement_set import (
        StatementSet as StatementSet,
    )
    from penstock.table.table.grouped_tables import (
        GroupedTable as GroupedTable,
    )
    from penstock.table.table.grouped_tables import (
        GroupWindowedTable as GroupWindowedTable,
    )
    from penstock.table.table.grouped_tables import (
        OverWindowedTable as OverWindowedTable,
    )
    from penstock.table.table.grouped_tables import (
        WindowGroupedTable as WindowGroupedTable,
    )
    from penstock.table.table.table import (
        Table as Table,
    )
    from penstock.table.table_config import (
        TableConfig as TableConfig,
    )
    from penstock.table.table_descriptor import (
        FormatDescriptor as FormatDescriptor,
    )
    from penstock.table.table_descriptor import (
        TableDescriptor as TableDescriptor,
    )
    from penstock.table.table_environment.stream_table_environment import (
        StreamTableEnvironment as StreamTableEnvironment,
    )
    from penstock.table.table_environment.table_environment import (
        TableEnvironment as TableEnvironment,
    )
    from penstock.table.table_pipeline import (
        TablePipeline as TablePipeline,
    )
    from penstock.table.table_result.table_result import (
        TableResult as TableResult,
    )
    from penstock.table.table_schema import (
        TableSchema as TableSchema,
    )
    from penstock.table.types import (
        DataTypes as DataTypes,
    )
    from penstock.table.udf.user_functions import (
        AggregateFunction as AggregateFunction,
    )
    from penstock.table.udf.user_functions import (
        AsyncScalarFunction as AsyncScalarFunction,
    )
    from penstock.table.udf.user_functions import (
        FunctionContext as FunctionContext,
    )
    from penstock.table.udf.user_functions import (
        ScalarFunction as ScalarFunction,
    )
    from penstock.table.udf.user_functions import (
        TableAggregateFunction as TableAggregateFunction,
    )
    from penstock.table.udf.user_functions import (
        TableFunction as TableFunction,
    )

_MODULES = {
    "AggregateFunction": "udf.user_functions",
    "AsyncScalarFunction": "udf.user_functions",
    "ChangelogMode": "changelog_mode",
    "CompiledPlan": "compiled_plan.compiled_plan",
    "DataTypes": "types",
    "DataView": "data_view",
    "EnvironmentSettings": "environment_settings",
    "ExplainDetail": "explain_detail",
    "Expression": "expression.expression",
    "FormatDescriptor": "table_descriptor",
    "FunctionContext": "udf.user_functions",
    "GroupWindowedTable": "table.grouped_tables",
    "GroupedTable": "table.grouped_tables",
    "ListView": "data_view",
    "MapView": "data_view",
    "Module": "module",
    "ModuleEntry": "module",
    "OverWindowedTable": "table.grouped_tables",
    "PlanReference": "plan_reference",
    "ResultKind": "result_kind",
    "Row": "penstock.common.types",
    "RowKind": "penstock.common.types",
    "ScalarFunction": "udf.user_functions",
    "Schema": "schema.schema",
    "SqlDialect": "sql_dialect",
    "StatementSet": "statement_set",
    "StreamTableEnvironment": "table_environment.stream_table_environment",
    "Table": "table.table",
    "TableAggregateFunction": "udf.user_functions",
    "TableConfig": "table_config",
    "TableDescriptor": "table_descriptor",
    "TableEnvironment": "table_environment.table_environment",
    "TableFunction": "udf.user_functions",
    "TablePipeline": "table_pipeline",
    "TableResult": "table_result.table_result",
    "TableSchema": "table_schema",
    "WindowGroupedTable": "table.grouped_tables",
    # Of Flink 1.
    "BatchTableEnvironment": "penstock.flink_1",
    "CsvTableSink": "penstock.flink_1",
    "CsvTableSource": "penstock.flink_1",
    "TableSink": "penstock.flink_1",
    "TableSource": "penstock.flink_1",
    "WriteMode": "penstock.flink_1",
}

__getattr__, __dir__ = lazy_exports(
    __name__,
    _MODULES,
    (
        "catalog",
        "changelog_mode",
        "compiled_plan",
        "data_view",
        "environment_settings",
        "explain_detail",
        "expression",
        "expressions",
        "module",
        "plan_reference",
        "result_kind",
        "schema",
        "sql_dialect",
        "statement_set",
        "table",
        "table_config",
        "table_descriptor",
        "table_environment",
        "table_pipeline",
        "table_result",
        "table_schema",
        "types",
        "udf",
        "window",
    ),
)

__all__ = sorted(_MODULES)
