"""Jars that a program names have no effect, and one log line says so."""

import logging

import pytest
from penstock.common import Configuration
from penstock.common.options.check import check_options, warn_of_idle_options
from penstock.common.packages.jars import notes_on_jars
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import PenstockError

KAFKA = "file:///opt/lib/flink-sql-connector-kafka-4.0.1-2.0.jar"


@pytest.mark.parametrize(
    ("jar", "brings"),
    [
        (KAFKA, "Kafka"),
        ("file:///lib/kafka-clients-3.4.0.jar", "Kafka"),
        ("file:///flink-connector-jdbc-3.1.2-1.18.jar", "JDBC"),
        ("file:///C:\\jars\\postgresql-42.7.1.jar", "JDBC"),
        ("mysql-connector-j-8.0.33.jar", "JDBC"),
        ("flink-sql-avro-confluent-registry-1.18.0.jar", "Avro"),
        ("flink-sql-parquet-1.17.1.jar", "Parquet"),
        ("flink-sql-orc-1.17.1.jar", "ORC"),
        ("flink-csv-1.18.0.jar", "CSV"),
        ("flink-json-1.18.0.jar", "JSON"),
        ("flink-s3-fs-hadoop-1.18.0.jar", "file systems"),
        ("flink-connector-files-1.18.0.jar", "file systems"),
        ("flink-statebackend-rocksdb-1.18.0.jar", "RocksDB"),
        ("flink-sql-connector-rabbitmq-3.0.1-1.17.jar", "RabbitMQ"),
        ("flink-connector-base-1.18.0.jar", "Flink itself"),
    ],
)
def test_built_in_connectors_need_no_jar(jar, brings):
    (note,) = notes_on_jars([jar])
    assert note == (
        f"jars that are not needed, since penstock has {brings} built in: "
        + jar.replace("\\", "/").rpartition("/")[2]
    )


@pytest.mark.parametrize(
    "jar", ["my-functions.jar", "flink-connector-pulsar-4.1.0-1.18.jar", "force.jar"]
)
def test_other_jars_are_distinguished(jar):
    (note,) = notes_on_jars([f"file:///{jar}"])
    assert note.startswith(f"jars without effect, since penstock runs no Java classes: {jar};")


def test_one_line_names_all_jars(caplog):
    configuration = Configuration()
    configuration.set_string("pipeline.jars", KAFKA)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.add_jars("file:///flink-json-1.18.0.jar", "file:///flink-csv-1.18.0.jar")
    env.add_classpaths("file:///lib/postgresql-42.7.1.jar")
    settings = env.get_configuration().to_dict()
    assert settings["pipeline.jars"].startswith(KAFKA + ";file:///flink-json")
    with caplog.at_level(logging.WARNING):
        check_options(settings)
        warn_of_idle_options(settings, "local")
    assert [record.getMessage() for record in caplog.records] == [
        "jars that are not needed, since penstock has Kafka, JSON, CSV, JDBC built in: "
        "flink-sql-connector-kafka-4.0.1-2.0.jar, flink-json-1.18.0.jar, flink-csv-1.18.0.jar, "
        "postgresql-42.7.1.jar"
    ]


def test_classes_of_jars_are_errors_where_they_are_used():
    from penstock.datastream.connectors.pulsar import PulsarSource

    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_jars("file:///flink-connector-pulsar-4.1.0-1.18.jar")
    with pytest.raises(PenstockError, match=r"PulsarSource\.builder needs a JVM"):
        PulsarSource.builder()


def test_a_jar_is_a_text():
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(PenstockError, match="add_jars"):
        env.add_jars(["file:///a.jar"])
