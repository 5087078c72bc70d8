"""`make test` runs each test that tests/README.md names for a mechanism; each connector has one."""

import ast
import re
from functools import cache
from pathlib import Path

import penstock.connectors
import penstock.datastream.state
import pytest

TESTS = Path(__file__).resolve().parents[1]
INDEX = re.findall(
    r"^\| ([^|]+) \| `([\w/]+\.py)::(\w+)` \|$", (TESTS / "README.md").read_text(), re.M
)

#: The mechanism of each package of connectors.
CONNECTORS = {
    "datagen": "generated records",
    "delta": "Delta Lake",
    "dynamic_kafka": "Kafka, streams over several clusters",
    "elasticsearch": "Elasticsearch",
    "files": "files, as a source",
    "http": "HTTP, as a source",
    "hybrid": "hybrid sources",
    "iceberg": "Apache Iceberg",
    "jdbc": "JDBC, as a sink",
    "kafka": "Kafka",
    "kinesis": "Kinesis",
    "mongodb": "MongoDB",
    "mqtt": "MQTT",
    "postgres_cdc": "changes of PostgreSQL",
    "rabbitmq": "RabbitMQ",
    "redis": "Redis",
}
#: The base of all kinds, and a kind that is stored as an aggregating state.
OTHERS = {"StateDescriptor", "FoldingStateDescriptor"}
#: The mechanism of each kind of state.
STATES = {
    "ValueStateDescriptor": "value state",
    "ListStateDescriptor": "list and map state",
    "MapStateDescriptor": "list and map state",
    "ReducingStateDescriptor": "reducing state",
    "AggregatingStateDescriptor": "aggregating state",
}

#: Files that `make test-yarn` runs.
OF_YARN = {"e2e/test_yarn.py"}


@cache
def functions_of(path: str) -> set[str]:
    """Return the tests of a file, without those that `make test` leaves out."""
    tree = ast.parse((TESTS / path).read_text())
    if any(isinstance(node, ast.Assign) and _is_slow(node.value) for node in tree.body):
        assert path in OF_YARN
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not any(map(_is_slow, node.decorator_list))
    }


def _is_slow(marks: ast.expr) -> bool:
    listed = marks.elts if isinstance(marks, ast.List) else [marks]
    return "pytest.mark.slow" in map(ast.unparse, listed)


@pytest.mark.parametrize(("path", "test"), [pytest.param(*row[1:], id=row[0]) for row in INDEX])
def test_a_mechanism_has_its_test(path: str, test: str) -> None:
    assert test in functions_of(path)


def test_each_mechanism_is_named_once() -> None:
    mechanisms = [mechanism for mechanism, _, _ in INDEX]
    assert len(mechanisms) > 60
    assert len(set(mechanisms)) == len(mechanisms)


def test_each_connector_and_kind_of_state_has_its_mechanism() -> None:
    """A new connector or kind of state must name the test that shows it best."""
    folder = Path(penstock.connectors.__file__).parent
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == CONNECTORS.keys()
    states = {
        name
        for name in dir(penstock.datastream.state)
        if name.endswith("StateDescriptor") and name not in OTHERS
    }
    assert states == STATES.keys()
    mechanisms = {mechanism for mechanism, _, _ in INDEX}
    assert {*CONNECTORS.values(), *STATES.values()} <= mechanisms
