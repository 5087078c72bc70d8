"""VersionedForm: the engine's stored data is read in its own version, and rejected in any other."""

import pytest
from penstock.errors import SerializationError
from penstock.serialization.type_serializer import JobTypeSerializer, TypeSerializer
from penstock.serialization.versioned_form import VersionedForm

FORM = VersionedForm("a pair", ("one", "other"), version=2)


def test_written_forms_are_read_back():
    kept = TypeSerializer().serialize(FORM.write("a", {"b": 1}))
    assert list(FORM.read(TypeSerializer().deserialize(kept))) == ["a", {"b": 1}]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ((3, "a", "b"), "a pair was written in version 3 .* reads version 2"),
        ((1, "a", "b"), r"a pair is not in version 2 of its form \(one, other\)"),
        ((2, "a"), "not in version 2"),
        (("a", "b"), "not in version 2"),
        ((True, "a", "b"), "not in version 2"),
        ((), "not in version 2"),
        ("text", "not in version 2"),
        (None, "not in version 2"),
    ],
)
def test_any_other_form_is_refused(kept, message):
    with pytest.raises(SerializationError, match=message):
        FORM.read(kept)


def test_values_within_a_job_are_as_their_own_codec_writes_them():
    from penstock.common import Types
    from penstock.serialization.codec import codec_for

    declared = Types.TUPLE([Types.LONG(), Types.STRING()])
    serializer = JobTypeSerializer(declared)
    assert serializer.serialize((7, "x")) == codec_for(declared).encode((7, "x"))
    assert serializer.deserialize(serializer.serialize((7, "x"))) == (7, "x")
    assert serializer.snapshot_configuration() == TypeSerializer(declared).snapshot_configuration()
