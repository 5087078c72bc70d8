"""TypeSerializer: whether values of one declared type are, or become, values of another."""

import pytest
from penstock.common import Row, Types
from penstock.errors import InvalidProgramError, SerializationError
from penstock.serialization.type_serializer import TypeSerializer, TypeSerializerSnapshot

OLD = Types.ROW_NAMED(["name", "gone"], [Types.STRING(), Types.INT()])
NEW = Types.ROW_NAMED(["added", "name"], [Types.LONG(), Types.STRING()])


def snapshot_of(type_info, **options):
    return TypeSerializer(type_info, **options).snapshot_configuration()


def compatibility(old, new):
    return snapshot_of(new).resolve_schema_compatibility(snapshot_of(old))


def test_values_survive_and_describe_themselves():
    value = {"a": (1, [2.5, None])}
    data = TypeSerializer(Types.PICKLED_BYTE_ARRAY()).serialize(value)
    assert TypeSerializer().deserialize(data) == value


def test_a_snapshot_is_read_as_it_was_written():
    snapshot = snapshot_of(Types.MAP(Types.STRING(), OLD), ttl=True)
    read = TypeSerializerSnapshot.read(snapshot.write())
    assert read == snapshot
    assert read.get_current_version() == 1
    assert read.has_time_to_live()
    assert str(read) == "MAP(STRING, ROW(name: STRING, gone: INT)) with a time to live"


def test_the_text_of_a_snapshot_is_that_of_former_savepoints():
    assert snapshot_of(Types.LIST(Types.INT())).write() == (
        '{"kind":"LIST","name":"LIST(INT)","fields":[{"kind":"INT","name":"INT"}]}'
    )


@pytest.mark.parametrize("text", ["", "{}", '{"kind": 1, "name": "x"}'])
def test_invalid_snapshots_are_rejected(text):
    with pytest.raises(SerializationError, match="is not the type of a state"):
        TypeSerializerSnapshot.read(text)


def test_a_snapshot_of_a_later_format_is_refused():
    with pytest.raises(SerializationError, match=r"in version 2 of the format; .* reads version 1"):
        TypeSerializerSnapshot.read('{"kind":"INT","name":"Integer","version":2}')


def test_the_same_type_is_compatible_as_is():
    found = compatibility(OLD, OLD)
    assert found.is_compatible_as_is()
    assert not found.is_compatible_after_migration()
    assert not found.is_incompatible()
    assert compatibility(Types.INT(), None).is_compatible_as_is()


def test_fields_of_rows_migrate_by_their_names():
    found = compatibility(OLD, NEW)
    assert found.is_compatible_after_migration()
    assert not found.is_compatible_as_is()
    assert not found.is_incompatible()
    assert found.migrate(Row(name="a", gone=1)) == Row(added=None, name="a")


def test_a_field_without_a_declared_type_gets_one():
    old = Types.ROW_NAMED(["name", "value"], [Types.STRING(), Types.PICKLED_BYTE_ARRAY()])
    new = Types.ROW_NAMED(["name", "value"], [Types.STRING(), Types.LONG()])
    found = compatibility(old, new)
    assert found.migrate(Row(name="a", value=1)) == Row(name="a", value=1)


def test_another_kind_is_incompatible_and_refused_with_both_types():
    found = compatibility(OLD, Types.INT())
    assert found.is_incompatible()
    assert not found.is_compatible_as_is()
    assert found.migrate is None
    with pytest.raises(InvalidProgramError) as refused:
        snapshot_of(Types.INT()).migration_from(snapshot_of(OLD), "state 'counts'")
    assert refused.value.args[0].startswith(
        "state 'counts' was written as ROW(name: STRING, gone: INT), and is declared as INT now: "
        "ROW(name: STRING, gone: INT) cannot become INT; give the state another name"
    )
