"""Types, rows, time, configuration and job handles that programs and the runtime share."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.common.completable_future import (
        CompletableFuture,
    )
    from penstock.common.config_options import (
        ConfigOption,
        ConfigOptions,
    )
    from penstock.common.configuration import (
        Configuration,
    )
    from penstock.common.execution_config import (
        ExecutionConfig,
    )
    from penstock.common.input_dependency_constraint import (
        InputDependencyConstraint,
    )
    from penstock.common.job_client import (
        JobClient,
    )
    from penstock.common.job_execution_result import (
        JobExecutionResult,
    )
    from penstock.common.job_id import (
        JobID,
    )
    from penstock.common.job_listener import (
        JobListener,
    )
    from penstock.common.job_status import (
        JobStatus,
    )
    from penstock.common.restart_strategy import (
        RestartStrategies,
        RestartStrategyConfiguration,
    )
    from penstock.common.serialization import (
        ByteArraySchema,
        DeserializationSchema,
        Encoder,
        SerializationSchema,
        SimpleStringSchema,
    )
    from penstock.common.serializer import (
        TypeSerializer,
    )
    from penstock.common.time import (
        Duration,
        Instant,
        Time,
    )
    from penstock.common.typeinfo import (
        TypeInformation,
        Types,
    )
    from penstock.common.types import (
        Row,
        RowKind,
    )
    from penstock.common.watermark_strategy import (
        AssignerWithPeriodicWatermarksWrapper,
        WatermarkStrategy,
    )
    from penstock.formats.avro import (
        AvroRowDeserializationSchema as AvroRowDeserializationSchema,
    )
    from penstock.formats.avro import (
        AvroRowSerializationSchema as AvroRowSerializationSchema,
    )
    from penstock.formats.csv import (
        CsvRowDeserializationSchema as CsvRowDeserializationSchema,
    )
    from penstock.formats.csv import (
        CsvRowSerializationSchema as CsvRowSerializationSchema,
    )
    from penstock.formats.json import (
        JsonRowDeserializationSchema as JsonRowDeserializationSchema,
    )
    from penstock.formats.json import (
        JsonRowSerializationSchema as JsonRowSerializationSchema,
    )

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobListener",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CompletableFuture": "completable_future",
        "ConfigOption": "config_options",
        "ConfigOptions": "config_options",
        "Configuration": "configuration",
        "ExecutionConfig": "execution_config",
        "InputDependencyConstraint": "input_dependency_constraint",
        "JobClient": "job_client",
        "JobExecutionResult": "job_execution_result",
        "JobID": "job_id",
        "JobListener": "job_listener",
        "JobStatus": "job_status",
        "RestartStrategies": "restart_strategy",
        "RestartStrategyConfiguration": "restart_strategy",
        "ByteArraySchema": "serialization",
        "DeserializationSchema": "serialization",
        "Encoder": "serialization",
        "SerializationSchema": "serialization",
        "SimpleStringSchema": "serialization",
        "TypeSerializer": "serializer",
        "Duration": "time",
        "Instant": "time",
        "Time": "time",
        "TypeInformation": "typeinfo",
        "Types": "typeinfo",
        "Row": "types",
        "RowKind": "types",
        "AssignerWithPeriodicWatermarksWrapper": "watermark_strategy",
        "WatermarkStrategy": "watermark_strategy",
        # Where programs of older PyFlink import them from.
        "AvroRowDeserializationSchema": "penstock.formats.avro",
        "AvroRowSerializationSchema": "penstock.formats.avro",
        "CsvRowDeserializationSchema": "penstock.formats.csv",
        "CsvRowSerializationSchema": "penstock.formats.csv",
        "JsonRowDeserializationSchema": "penstock.formats.json",
        "JsonRowSerializationSchema": "penstock.formats.json",
        "ExecutionMode": "penstock.flink_1",
    },
    (
        "completable_future",
        "config_options",
        "configuration",
        "constants",
        "execution_config",
        "input_dependency_constraint",
        "io",
        "job_client",
        "job_execution_result",
        "job_id",
        "job_status",
        "restart_strategy",
        "serialization",
        "serializer",
        "time",
        "typeinfo",
        "types",
        "utils",
        "watermark_strategy",
    ),
)
