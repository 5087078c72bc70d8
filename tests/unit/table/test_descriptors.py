"""Schemas, descriptors, settings and options of table environments, as they are built."""

import datetime

import pytest
from penstock.common import Configuration
from penstock.errors import ConfigurationError, WrongArgumentError
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.exceptions import ValidationException
from penstock.table.schema import Schema
from penstock.table.schema.resolved_schema import ResolvedSchema
from penstock.table.table_config import TableConfig
from penstock.table.table_descriptor import FormatDescriptor, TableDescriptor
from penstock.table.table_environment import TableEnvironment
from penstock.table.types import DataTypes


def _schema():
    return (
        Schema.new_builder()
        .column("id", DataTypes.BIGINT().not_null())
        .column("price", "DECIMAL(10, 2)")
        .column_by_expression("twice", "price * 2")
        .column_by_metadata("file", DataTypes.STRING(), "file.path", True)
        .watermark("ts", "ts - INTERVAL '5' SECOND")
        .primary_key("id")
        .build()
    )


def test_a_schema_reads_as_in_sql():
    assert str(_schema()).splitlines() == [
        "(",
        "  `id` BIGINT NOT NULL,",
        "  `price` [DECIMAL(10, 2)],",
        "  `twice` AS [price * 2],",
        "  `file` STRING METADATA FROM 'file.path' VIRTUAL,",
        "  WATERMARK FOR `ts` AS [ts - INTERVAL '5' SECOND],",
        "  CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED",
        ")",
    ]
    assert Schema.new_builder().from_schema(_schema()).build() == _schema()


def test_a_schema_has_one_primary_key():
    builder = Schema.new_builder().column("a", DataTypes.INT()).primary_key("a")
    with pytest.raises(ValidationException, match="one primary key"):
        builder.primary_key("a")


def test_a_resolved_schema_is_declared_again():
    resolved = ResolvedSchema.physical(["a", "b"], [DataTypes.INT(), DataTypes.STRING()])
    builder = Schema.new_builder().from_resolved_schema(resolved)
    assert [column.name for column in builder.build().columns] == ["a", "b"]
    assert resolved.get_column("b").data_type == DataTypes.STRING()
    assert resolved.get_column(5) is None


def test_descriptors():
    json = FormatDescriptor.for_format("json").option("ignore-parse-errors", True).build()
    table = (
        TableDescriptor.for_connector("kafka")
        .schema(_schema())
        .option("topic", "t")
        .format(json, "value.format")
        .partitioned_by("id")
        .comment("mine")
        .build()
    )
    assert table.get_options() == {
        "connector": "kafka",
        "topic": "t",
        "value.format": "json",
        "value.json.ignore-parse-errors": "true",
    }
    assert table.get_partition_keys() == ["id"]
    assert "PARTITIONED BY (`id`)" in str(table)
    with pytest.raises(ValidationException, match="names no format"):
        TableDescriptor.for_connector("kafka").format("json", "codec")


def test_settings():
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", "BATCH")
    configured = EnvironmentSettings.new_instance().with_configuration(configuration).build()
    assert not configured.is_streaming_mode()
    assert EnvironmentSettings.in_streaming_mode().is_streaming_mode()
    named = EnvironmentSettings.new_instance().with_built_in_catalog_name("mine").build()
    assert named.get_built_in_catalog_name() == "mine"
    assert named.get_configuration().get_string("execution.runtime-mode", "") == "STREAMING"


def test_config_takes_texts_of_known_options():
    config = TableConfig.get_default()
    with pytest.raises(WrongArgumentError, match="must be a str"):
        config.set("parallelism.default", 2)
    with pytest.raises(ConfigurationError, match=r"table\.exec\.state\.ttl"):
        config.set("table.exec.state.tll", "1 h")
    with pytest.raises(ConfigurationError, match="time zone"):
        config.set_local_timezone("Mars/Olympus")
    with pytest.raises(ConfigurationError):
        config.set("table.exec.state.ttl", "soon")
    config.set("table.exec.mini-batch.size", "500")
    config.set_local_timezone("Europe/Berlin")
    assert config.get_local_timezone() == "Europe/Berlin"
    config.set_idle_state_retention(datetime.timedelta(hours=1))
    assert config.get_idle_state_retention() == datetime.timedelta(hours=1)
    config.reset("table.local-time-zone")
    assert config.get("table.local-time-zone", "none") == "none"


def test_existing_tables_are_kept_under_both_names_of_the_argument():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    schema = Schema.new_builder().column("a", DataTypes.INT()).build()
    made = TableDescriptor.for_connector("blackhole").schema(schema).build()
    assert tables.create_table("t", made)
    for keyword in ("ignoreIfExists", "ignore_if_exists"):
        assert not tables.create_table("t", made, **{keyword: True})
        tables.create_temporary_table("temporary", made, **{keyword: True})
    with pytest.raises(ValidationException, match="already exists"):
        tables.create_table("t", made, False)
