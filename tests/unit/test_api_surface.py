"""Every core class, member, parameter and default of PyFlink's API exists here.

The fixture describes PyFlink 2.3: the members of each class and the parameters of each method.
Members that PyFlink only has because of the JVM (flagged `jvm`) must exist, but their parameters
may differ; classes of the tiers `jvm` and `connector` must be importable and be rejected clearly.
"""

import enum
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest
from penstock.errors import JvmOnlyError

SURFACE = json.loads((Path(__file__).parents[1] / "data" / "api_surface.json").read_text())
#: Connectors that exist here, and are therefore compared as the core is.
BUILT = re.compile(
    r"datastream\.connectors\.(kafka\.(Flink)?Kafka\w+|dynamic_kafka\.\w+)"
    r"|datastream\.connectors\.file_system\.BulkFormat|datastream\.formats\.parquet\.ParquetColumnar\w+"
    r"|datastream\.connectors\.jdbc\.Jdbc\w+|common\.serialization\.BulkWriterFactory"
    r"|datastream\.formats\.\w+\.\w+BulkWriters|datastream\.formats\.parquet\.AvroParquet\w+"
    r"|datastream\.formats\.(json|csv|avro)\.(Json|Csv|Avro)Row\w+(\.Builder)?"
    r"|datastream\.connectors\.(elasticsearch\.\w+|kinesis\.(?!WatermarkTracker)\w+)"
    r"|datastream\.connectors\.rabbitmq\.RMQ\w+(\.Builder)?"
    r"|datastream\.formats\.(avro\.(AvroSchema|AvroInputFormat|GenericRecordAvroTypeInfo)|csv\.Csv(Schema|SchemaBuilder|ReaderFormat))"
)
CORE = {
    name: c
    for name, c in SURFACE["classes"].items()
    if c["tier"] == "core" or BUILT.fullmatch(name)
}
OTHER = {name: c for name, c in SURFACE["classes"].items() if name not in CORE}
KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional_or_keyword",
    inspect.Parameter.VAR_POSITIONAL: "var_positional",
    inspect.Parameter.VAR_KEYWORD: "var_keyword",
    inspect.Parameter.KEYWORD_ONLY: "keyword_only",
    inspect.Parameter.POSITIONAL_ONLY: "positional_only",
}


def find(path):
    """Return the object at "module.Class.Nested" below the package."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module("penstock." + module), name)


def parameters(function):
    found = []
    for p in inspect.signature(function).parameters.values():
        # A compiled class receives ``self`` only by position.
        entry = [p.name, KINDS[p.POSITIONAL_OR_KEYWORD if p.name == "self" else p.kind]]
        if p.default is not p.empty:
            entry.append(repr(p.default) if isinstance(p.default, enum.Enum) else p.default)
        found.append(entry)
    return found


def differences(cls, described, path):
    """Return the differences between the description and a class, as sentences."""
    for name, member in described["members"].items():
        where = f"{path}.{name}"
        if name == "__getattr__" and cls.__getattribute__ is not object.__getattribute__:
            continue  # which includes __getattr__
        if not hasattr(cls, name):
            yield f"{where} is missing"
        elif "params" in member:
            static = inspect.getattr_static(cls, name)
            if isinstance(static, (staticmethod, classmethod)) != (
                member["kind"] in ("staticmethod", "classmethod")
            ):
                yield f"{where} should be a {member['kind']}"
                continue
            function = (
                static.__func__ if isinstance(static, (staticmethod, classmethod)) else static
            )
            if member["kind"] == "coroutine" and not inspect.iscoroutinefunction(function):
                yield f"{where} should be a coroutine"
            if member.get("jvm") or (name.startswith("__") and name != "__init__"):
                continue
            found, wanted = parameters(function), member["params"]
            if found[: len(wanted)] != wanted or any(
                len(extra) < 3 and extra[1] == "positional_or_keyword"
                for extra in found[len(wanted) :]
            ):
                yield f"{where} takes {found}, not {wanted}"
            if member.get("abstract") and not getattr(function, "__isabstractmethod__", False):
                yield f"{where} should be abstract"
        elif (
            isinstance(member.get("value"), (int, float, bool))
            and getattr(cls, name) != member["value"]
        ):
            yield f"{where} is {getattr(cls, name)!r}, not {member['value']!r}"
    for name in described.get("inherited", ()):
        if not hasattr(cls, name):
            yield f"{path}.{name} (inherited) is missing"
    for name, nested in described["nested"].items():
        if not hasattr(cls, name):
            yield f"{path}.{name} (nested class) is missing"
        else:
            yield from differences(getattr(cls, name), nested, f"{path}.{name}")
    if "enum" in described:
        if not issubclass(cls, enum.Enum):
            yield f"{path} should be an enum"
            return
        found = {m.name: m.value for m in cls}
        wanted = described["enum"]
        if list(found) != list(wanted) and set(found) != set(wanted):
            yield f"{path} has {list(found)}, not {list(wanted)}"
        for name, value in wanted.items():
            if name in found and isinstance(value, int) and found[name] != value:
                yield f"{path}.{name} is {found[name]!r}, not {value!r}"


@pytest.mark.parametrize("path", sorted(CORE))
def test_core_class(path):
    assert list(differences(find(path), CORE[path], path)) == []


@pytest.mark.parametrize("path", sorted(CORE))
def test_bases_have_the_same_names(path):
    """PyFlink's own base classes remain, so that isinstance tests in programs still hold."""
    cls = find(path)
    names = {base.__name__ for base in cls.__mro__}
    java = {"JavaObjectWrapper"}
    assert {base for base in CORE[path]["bases"] if base not in java} <= names


@pytest.mark.parametrize("module", sorted(SURFACE["exports"]))
def test_exports(module):
    found = importlib.import_module("penstock." + module)
    missing = [name for name in SURFACE["exports"][module] if not hasattr(found, name)]
    assert missing == []
    assert set(SURFACE["exports"][module]) <= set(found.__all__)


@pytest.mark.parametrize("path", sorted(SURFACE["functions"]))
def test_functions(path):
    described = SURFACE["functions"][path]
    function = find(path)
    assert parameters(function) == described["params"]
    if described["tier"] == "jvm":
        with pytest.raises(JvmOnlyError):
            function(*[None] * len(described["params"]))


@pytest.mark.parametrize("path", sorted(SURFACE["constants"]))
def test_constants(path):
    wanted = SURFACE["constants"][path]
    value = find(path)
    assert value == wanted or type(value).__name__ == wanted


def importable(described):
    return described.get("importable_from", [])


@pytest.mark.parametrize(
    ("module", "name"),
    sorted(
        (module, path.rpartition(".")[2])
        for path, described in OTHER.items()
        for module in importable(described)
    ),
)
def test_other_classes_are_importable(module, name):
    assert hasattr(importlib.import_module("penstock." + module), name)


@pytest.mark.parametrize(
    "path", sorted(p for p, c in OTHER.items() if c["tier"] == "connector" and importable(c))
)
def test_connectors_refuse_and_say_what_to_use(path):
    described = OTHER[path]
    cls = getattr(
        importlib.import_module("penstock." + described["importable_from"][0]),
        path.rpartition(".")[2],
    )
    if isinstance(cls, type) and (
        issubclass(cls, enum.Enum) or cls.__name__ == "RowFieldExtractorSchema"
    ):
        return
    with pytest.raises(JvmOnlyError, match="needs a JVM"):
        cls(None)
