"""PyFlink's private members in Java are missing, and the error names the replacement."""

import importlib
import json

import pytest
from pyflink_comparison.pyflink_oracle.java_members import RECORDED

# Classes that cannot be constructed, since penstock lacks their connectors.
WITHOUT_COUNTERPART = ("cassandra", "kinesis", "pulsar")
# Classes of PyFlink that programs do not construct: their counterparts have other names, or none.
OTHERWISE_NAMED = {
    "ExternalTypeInfo",  # between PyFlink and its Table API
    "StreamingFileSink.BaseBuilder",
    "StreamingFileSink.DefaultBulkFormatBuilder",  # of FileSink
}


CASES = [
    (name, kind, members)
    for name, classes in json.loads(RECORDED.read_text()).items()
    for kind, members in classes.items()
    if not name.endswith(WITHOUT_COUNTERPART) and kind not in OTHERWISE_NAMED
]


def test_many_classes_are_recorded():
    assert len(CASES) > 60


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind", "members"), CASES)
def test_a_private_member_says_what_to_use(name, kind, members):
    found = importlib.import_module(f"penstock.{name}")
    for part in kind.split("."):
        found = getattr(found, part)
    bases = (type("_", (found,), dict.fromkeys(getattr(found, "__abstractmethods__", ()))),)
    instance = bases[0].__new__(bases[0])
    for member in members:
        with pytest.raises(AttributeError, match=rf"'{member}': .*(Java|Python) object|use "):
            getattr(instance, member)
