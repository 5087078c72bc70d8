"""Names that programs import from PyFlink's modules, although these only import them.

They are names of Python's library, of other modules, and names that modules of PyFlink 1 had.
They are available only below the name ``pyflink``, and ``dir`` of a module does not list them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

_SOURCES: Final = {
    "abc": "ABC ABCMeta abstractmethod",
    "datetime": "timedelta",
    "enum": "Enum",
    "io": "BytesIO",
    "typing": (
        "Any Callable Collection Dict Generic Iterable Iterator List Optional Set TYPE_CHECKING "
        "Tuple Type TypeVar Union cast overload"
    ),
}
"""The names, by the module of Python's library that defines them."""

_MODULES: Final = (
    "abc ast calendar datetime functools inspect math os pickle tempfile time typing uuid warnings"
)
"""Modules of Python's library that PyFlink's modules import as modules."""

_IMPORTED: Final = {
    "common.configuration": "Dict Set",
    "common.execution_config": "Dict List",
    "common.job_execution_result": "Dict",
    "common.restart_strategy": "ABCMeta Optional timedelta",
    "common.serializer": "BytesIO",
    "common.typeinfo": "Enum List Union calendar datetime time",
    "common.types": "Enum List",
    "common.watermark_strategy": "Optional abc",
    "datastream.async_retry_strategies": "List Optional",
    "datastream.checkpoint_config": "Optional",
    "datastream.checkpoint_storage": "ABCMeta Optional",
    "datastream.connectors.base": "ABC Enum Optional Union abstractmethod",
    "datastream.connectors.cassandra": "Enum",
    "datastream.connectors.dynamic_kafka": "Dict Set Union",
    "datastream.connectors.elasticsearch": "Enum List Union abc",
    "datastream.connectors.file_system": "Optional abstractmethod warnings",
    "datastream.connectors.kafka": (
        "ABC Any Callable Dict Enum List Optional Set Union abstractmethod warnings"
    ),
    "datastream.connectors.kinesis": "Dict List Union",
    "datastream.connectors.pulsar": "Dict Enum List Optional Union warnings",
    "datastream.data_stream": "Callable Enum List Optional Union cast overload typing uuid",
    "datastream.formats.csv": "Optional TYPE_CHECKING",
    "datastream.formats.orc": "Optional TYPE_CHECKING",
    "datastream.formats.parquet": "Optional TYPE_CHECKING",
    "datastream.functions": (
        "ABC Any Callable Enum Generic Iterable List Optional TypeVar Union abstractmethod"
    ),
    "datastream.output_tag": "Optional Union",
    "datastream.slot_sharing_group": "Optional",
    "datastream.state": "Dict Enum List Optional Tuple",
    "datastream.state_backend": "ABCMeta List Optional",
    "datastream.stream_execution_environment": "List Optional cast os tempfile",
    "datastream.utils": "abstractmethod ast datetime pickle",
    "datastream.window": (
        "ABC Any BytesIO Collection Enum Generic Iterable Optional TypeVar abstractmethod cast math"
    ),
    "metrics.metricbase": "Callable",
    "table.catalog": "ABCMeta abstractmethod Dict Enum List Optional Union",
    "table.compiled_plan": "Union",
    "table.data_view": "Dict Iterable Iterator List Tuple",
    "table.expression": "Any Enum Generic TypeVar Union",
    "table.expressions": "Union",
    "table.plan_reference": "Union",
    "table.schema": "List Union",
    "table.statement_set": "Union",
    "table.table": "Union",
    "table.table_descriptor": "Dict List Optional Union",
    "table.table_environment": "Iterable List Optional Tuple Union tempfile",
    "table.table_pipeline": "Optional",
    "table.table_result": "Optional",
    "table.table_schema": "List Optional Union",
    "table.types": "Enum List Union calendar datetime time",
    "table.udf": "Callable Generic Iterable List Type TypeVar Union abc functools inspect",
}
"""Names of Python's library by PyFlink's module, recorded from PyFlink 2.3.0."""

_RESTARTS: Final = {"common.restart_strategy": "RestartStrategies RestartStrategyConfiguration"}
_FORMER: Final[dict[str, dict[str, str]]] = {
    "common.execution_config": {"flink_1": "ExecutionMode", **_RESTARTS},
    "common.serialization": {"common.typeinfo": "TypeInformation"},
    "datastream.checkpoint_config": {"datastream.checkpoint_storage": "CheckpointStorage"},
    "datastream.connectors": {
        "common.serialization": "DeserializationSchema Encoder SerializationSchema",
        "common.time": "Duration",
        "common.typeinfo": "RowTypeInfo TypeInformation",
        "datastream.functions": "SinkFunction SourceFunction",
        "flink_1": "FlinkKafkaConsumerBase FlinkKafkaProducerBase",
    },
    "datastream.stream_execution_environment": {
        "datastream.state_backend": "StateBackend",
        "flink_1": "TimeCharacteristic",
        **_RESTARTS,
    },
}
"""Names that a module of PyFlink 1 had, by the module of penstock that has them."""

_TABLES: Final[dict[str, dict[str, str]]] = {
    "table.catalog": {
        "common.configuration": "Configuration",
        "table": "Schema TableSchema",
        "table.types": "DataType",
    },
    "table.compiled_plan": {"table": "ExplainDetail TableResult"},
    "table.expression": {
        "table.expression.expression": "T",
        "table.types": "DataType DataTypes",
    },
    "table.expressions": {
        "table.types": "DataType",
        "table.udf": "UserDefinedFunctionWrapper",
    },
    "table.schema": {"table": "Expression", "table.types": "DataType"},
    "table.statement_set": {
        "table": "CompiledPlan ExplainDetail TableDescriptor TablePipeline TableResult",
    },
    "table.table": {
        "table": ("ExplainDetail Expression TableDescriptor TablePipeline TableResult TableSchema"),
        "table.expressions": "col with_columns without_columns",
        "table.schema.resolved_schema": "ResolvedSchema",
        "table.window": "GroupWindow OverWindow",
    },
    "table.table_descriptor": {"common.config_options": "ConfigOption", "table": "Schema"},
    "table.table_environment": {
        "common": "Configuration",
        "common.typeinfo": "TypeInformation",
        "datastream": "DataStream StreamExecutionEnvironment",
        "table": (
            "AggregateFunction ChangelogMode CompiledPlan EnvironmentSettings ExplainDetail "
            "Expression Module ModuleEntry PlanReference Schema StatementSet Table "
            "TableAggregateFunction TableConfig TableDescriptor TableResult"
        ),
        "table.catalog": "Catalog CatalogDescriptor",
        "flink_1": "BatchTableEnvironment",
        "table.types": "DataType RowField RowType",
        "table.udf": "UserDefinedFunctionWrapper udaf udtaf",
    },
    "table.table_pipeline": {"table": "CompiledPlan ExplainDetail TableResult"},
    "table.table_result": {
        "common": "JobClient",
        "table": "ResultKind Row RowKind TableSchema",
        "table.schema.resolved_schema": "ResolvedSchema",
    },
    "table.table_schema": {"table.types": "DataType"},
    "table.udf": {
        "metrics": "MetricGroup",
        "table": "Expression",
        "table.types": "DataType DataTypes MapType RowType",
        "table.udf.user_functions": "ACC T",
    },
}
"""Names that a module of the Table API imports, by the module of penstock that has them."""


def add_imported_names(module: ModuleType, name: str) -> None:
    """Let programs import from a module the names that PyFlink's module imports, or imported.

    Args:
        module: The module.
        name: Its name below ``pyflink``.
    """
    names = _IMPORTED.get(name, "").split()
    defined = {
        attribute: f"penstock.{place}"
        for place, attributes in {**_FORMER, **_TABLES}.get(name, {}).items()
        for attribute in attributes.split()
    }
    if not (names or defined):
        return
    own = vars(module).get("__getattr__")

    def get_attribute(attribute: str) -> Any:
        if attribute in names:
            return _imported(attribute)
        if attribute in defined:
            return getattr(import_module(defined[attribute]), attribute)
        if own is not None:
            return own(attribute)
        raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

    vars(module)["__getattr__"] = get_attribute


def _imported(name: str) -> Any:
    if name in _MODULES.split():
        return import_module(name)
    source = next(source for source, names in _SOURCES.items() if name in names.split())
    return getattr(import_module(source), name)
