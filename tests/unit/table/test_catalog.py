"""The catalog in memory: databases, tables, functions and partitions, and its errors."""

import pytest
from penstock.table import EnvironmentSettings, TableEnvironment, exceptions
from penstock.table.catalog import (
    CatalogBaseTable,
    CatalogColumnStatistics,
    CatalogDatabase,
    CatalogFunction,
    CatalogPartition,
    CatalogPartitionSpec,
    CatalogTableStatistics,
    Column,
    Constraint,
    GenericInMemoryCatalog,
    ObjectIdentifier,
    ObjectPath,
    UniqueConstraint,
    WatermarkSpec,
)
from penstock.table.plan.expressions import Literal
from penstock.table.schema import Schema
from penstock.table.types import DataTypes


def _table(**settings):
    schema = Schema.new_builder().column("a", DataTypes.INT()).build()
    return CatalogBaseTable.create_table(schema, **settings)


def test_databases():
    catalog = GenericInMemoryCatalog("c", "d")
    assert catalog.get_default_database() == "d"
    catalog.create_database("e", CatalogDatabase({"k": "v"}, "mine"), False)
    assert catalog.list_databases() == ["d", "e"]
    assert catalog.get_database("e").get_properties() == {"k": "v"}
    with pytest.raises(exceptions.DatabaseAlreadyExistException, match="e already exists"):
        catalog.create_database("e", CatalogDatabase(), False)
    catalog.create_table(ObjectPath("e", "t"), _table(), False)
    with pytest.raises(exceptions.DatabaseNotEmptyException, match="CASCADE"):
        catalog.drop_database("e", False)
    catalog.drop_database("e", False, cascade=True)
    catalog.drop_database("e", True)
    with pytest.raises(exceptions.DatabaseNotExistException):
        catalog.drop_database("e", False)


def test_tables():
    catalog = GenericInMemoryCatalog("c", "d")
    path = ObjectPath.from_string("d.t")
    catalog.create_table(path, _table(), False)
    catalog.create_table(path, _table(comment="other"), True)
    assert catalog.get_table(path).get_comment() is None
    with pytest.raises(exceptions.TableAlreadyExistException, match=r"d\.t"):
        catalog.create_table(path, _table(), False)
    catalog.alter_table(path, _table(comment="other"), False)
    assert catalog.get_table(path).get_comment() == "other"
    catalog.rename_table(path, "u", False)
    assert catalog.list_tables("d") == ["u"]
    assert not catalog.table_exists(path)
    with pytest.raises(exceptions.TableNotExistException):
        catalog.drop_table(path, False)
    catalog.drop_table(path, True)
    with pytest.raises(exceptions.DatabaseNotExistException):
        catalog.list_tables("nowhere")


def test_functions_are_found_in_any_case():
    catalog = GenericInMemoryCatalog("c", "d")
    catalog.create_function(ObjectPath("d", "Add"), CatalogFunction("m.add"), False)
    assert catalog.get_function(ObjectPath("d", "ADD")).get_class_name() == "m.add"
    with pytest.raises(exceptions.FunctionAlreadyExistException):
        catalog.create_function(ObjectPath("d", "add"), CatalogFunction("m.add"), False)
    catalog.drop_function(ObjectPath("d", "add"), False)
    with pytest.raises(exceptions.FunctionNotExistException):
        catalog.get_function(ObjectPath("d", "add"))


def test_partitions():
    catalog = GenericInMemoryCatalog("c", "d")
    path = ObjectPath("d", "t")
    catalog.create_table(path, _table(partition_keys=["day"]), False)
    monday = CatalogPartitionSpec({"day": "mon"})
    catalog.create_partition(path, monday, CatalogPartition(), False)
    assert catalog.list_partitions(path) == [monday]
    catalog.alter_partition(path, monday, CatalogPartition({}, "rainy"), False)
    assert catalog.get_partition(path, monday).get_comment() == "rainy"
    assert str(monday) == "CatalogPartitionSpec{{day=mon}}"
    tuesday = CatalogPartitionSpec({"day": "tue"})
    catalog.alter_partition(path, tuesday, CatalogPartition(), True)
    with pytest.raises(exceptions.PartitionNotExistException):
        catalog.alter_partition(path, tuesday, CatalogPartition(), False)
    with pytest.raises(exceptions.PartitionAlreadyExistsException):
        catalog.create_partition(path, monday, CatalogPartition(), False)
    with pytest.raises(exceptions.PartitionSpecInvalidException, match="day"):
        catalog.create_partition(path, CatalogPartitionSpec({"x": "1"}), CatalogPartition(), False)
    catalog.drop_partition(path, monday, False)
    with pytest.raises(exceptions.PartitionNotExistException):
        catalog.get_partition(path, monday)
    plain = ObjectPath("d", "plain")
    catalog.create_table(plain, _table(), False)
    with pytest.raises(exceptions.TableNotPartitionedException):
        catalog.list_partitions(plain)


def test_statistics_are_stored_as_long_as_their_tables():
    catalog = GenericInMemoryCatalog("c", "d")
    path, day = ObjectPath("d", "t"), CatalogPartitionSpec({"day": "mon"})
    catalog.create_table(path, _table(partition_keys=["day"]), False)
    catalog.create_partition(path, day, CatalogPartition(), False)
    assert catalog.get_table_statistics(path).get_row_count() == -1
    table = CatalogTableStatistics(3, 1, 40, 80, {"k": "v"})
    columns = CatalogColumnStatistics({"a": "most"})
    catalog.alter_table_statistics(path, table, False)
    catalog.alter_table_column_statistics(path, columns, False)
    catalog.alter_partition_statistics(path, day, table, False)
    catalog.alter_partition_column_statistics(path, day, columns, False)
    assert catalog.get_table_statistics(path).copy() == table
    assert catalog.get_table_column_statistics(path).copy() == columns
    assert catalog.bulk_get_partition_statistics(path, [day]) == [table]
    assert catalog.bulk_get_partition_column_statistics(path, [day]) == [columns]
    assert table.get_properties() == {"k": "v"}
    assert [table.get_field_count(), table.get_total_size(), table.get_raw_data_size()] == [
        1,
        40,
        80,
    ]
    assert columns.get_column_statistics_data() == {"a": "most"}
    catalog.drop_partition(path, day, False)
    catalog.create_partition(path, day, CatalogPartition(), False)
    assert catalog.get_partition_statistics(path, day).get_row_count() == -1
    catalog.drop_table(path, False)
    catalog.alter_table_statistics(path, table, True)
    catalog.alter_partition_statistics(path, day, table, True)
    with pytest.raises(exceptions.TableNotExistException):
        catalog.alter_table_statistics(path, table, False)
    catalog.create_table(path, _table(), False)
    assert catalog.get_table_statistics(path) == CatalogTableStatistics()
    assert catalog.get_table_column_statistics(path) == CatalogColumnStatistics()


def test_lists_of_objects_that_there_are_not():
    catalog = GenericInMemoryCatalog("c", "d")
    for names in (catalog.list_models, catalog.list_procedures, catalog.list_materialized_tables):
        assert names("d") == []
        with pytest.raises(exceptions.DatabaseNotExistException):
            names("e")
    assert not catalog.model_exists(ObjectPath("d", "m"))
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    assert tables.list_models() == tables.list_temporary_models() == []
    assert tables.list_materialized_tables() == []
    with pytest.raises(AttributeError, match="a Python function can call one"):
        tables.create_model("m", None)


def test_identifiers():
    name = ObjectIdentifier.of("c", "d", "t`x")
    assert str(name) == "`c`.`d`.`t``x`"
    assert name.as_summary_string() == "c.d.t`x"
    assert name.to_object_path() == ObjectPath("d", "t`x")


def test_paths_are_ordered():
    first, second = ObjectPath("d", "a"), ObjectPath("d", "b")
    assert first.compare_to(second) < 0 == first.compare_to(first) < second.compare_to(first)


def test_constraints_and_columns_of_resolved_schemas():
    key = UniqueConstraint.primary_key("PK_a", ["a"])
    assert isinstance(key, Constraint)
    assert (key.get_name(), key.is_enforced(), key.get_columns()) == ("PK_a", False, ["a"])
    assert str(key) == "CONSTRAINT `PK_a` PRIMARY KEY (`a`) NOT ENFORCED"
    one = Literal(DataTypes.INT(), 1)
    assert str(Column.computed("b", one)) == "`b` INT AS 1"
    assert str(WatermarkSpec.of("t", Literal(DataTypes.TIMESTAMP(3), "x"))) == (
        "WATERMARK FOR `t`: TIMESTAMP(3) AS 'x'"
    )
