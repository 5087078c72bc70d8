"""Classes that the guide tells users to subclass can be constructed by a subclass."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
from penstock import datastream
from penstock.common import serialization
from penstock.datastream import functions
from penstock.datastream.connectors import file_system
from penstock.errors import InvalidProgramError

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [page.read_text() for page in sorted(DOCS.glob("*.md"))]
EXAMPLES = re.findall(r"```python\n(.*?)```", "\n".join(PAGES), re.S)


def imported_by(tree):
    """Return the names that an example imports from penstock."""
    return {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("penstock")
        for alias in node.names
    }


def documented():
    """Return the classes that an example or a sentence subclasses."""
    known, bases = {}, set()
    for module in (file_system, functions, serialization):
        # Not `vars`, which has a lazy name only once some other module has used it.
        known.update({name: getattr(module, name) for name in module.__all__})
    for tree in map(ast.parse, EXAMPLES):
        names = imported_by(tree)
        known.update(names)
        made = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        bases |= {names[n.id] for node in made for n in node.bases if getattr(n, "id", "") in names}
    for sentence in re.findall(r"subclass[^`|.]*`(\w+)`|`(\w+)`[^`|.]* subclass", "\n".join(PAGES)):
        name = "".join(sentence)
        if inspect.isclass(known.get(name)):
            bases.add(known[name])
    return sorted(bases | {file_system.BucketAssigner}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("base", documented(), ids=lambda cls: cls.__name__)
def test_a_subclass_without_a_constructor_of_its_own_can_be_made(base):
    methods = dict.fromkeys(getattr(base, "__abstractmethods__", ()), lambda self: None)
    assert isinstance(type("Own", (base,), methods)(), base)


def test_functions_that_the_guide_names_are_importable_beside_streams():
    named = set(re.findall(r"`(\w+)`", "\n".join(PAGES))) & set(functions.__all__)
    assert "MapPartitionFunction" in named
    assert sorted(name for name in named if not hasattr(datastream, name)) == []


def test_a_bucket_assigner_of_ones_own_names_the_folder():
    class ByFirst(file_system.BucketAssigner):
        def get_bucket_id(self, element, processing_time_ms):
            return f"first={element[0]}"

    assert ByFirst().get_bucket_id("ab", 0) == "first=a"


def test_a_bucket_assigner_that_names_no_folder_is_refused():
    class ByFirst(file_system.BucketAssigner):
        def get_bucket(self, element, context):
            return element[0]

    builder = file_system.FileSink.for_row_format(
        "out", serialization.Encoder.simple_string_encoder()
    )
    with pytest.raises(InvalidProgramError, match="ByFirst has no method get_bucket_id"):
        builder.with_bucket_assigner(ByFirst())
    builder.with_bucket_assigner(file_system.BucketAssigner.base_path_bucket_assigner())
