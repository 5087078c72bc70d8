"""PyFlink's connectors and formats can be used by PyFlink's names, including every method.

PyFlink's own suites for them are in neither its wheel nor its source distribution, so this test has
its own programs; the list of methods is in the description of PyFlink's API.
"""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from unit.test_api_surface import CORE, find

PROGRAM = Path(__file__).parents[1] / "data" / "pyflink_connectors.py"
for package in ("boto3", "confluent_kafka", "elastic_transport", "fastavro", "pika", "pyarrow"):
    pytest.importorskip(package)


def methods(path, described):
    """Yield the public methods that need no JVM: their names, and the functions behind them."""
    for name, member in described["members"].items():
        if "params" in member and not member.get("jvm") and not name.startswith("_"):
            function = inspect.getattr_static(find_nested(path), name)
            function = getattr(function, "__func__", function)
            if not getattr(function, "__isabstractmethod__", False):
                yield f"{path}.{name}", inspect.unwrap(function).__code__.co_qualname
    for name, nested in described["nested"].items():
        yield from methods(f"{path}.{name}", nested)


def find_nested(path):
    parts = path.split(".")
    (first,) = [n for n, part in enumerate(parts) if part[:1].isupper()][:1]
    found = find(".".join(parts[: first + 1]))
    for part in parts[first + 1 :]:
        found = getattr(found, part)
    return found


def test_each_method_is_used():
    environment = {**os.environ, "PENSTOCK_EXECUTION_TARGET": "in-process"}
    done = subprocess.run(
        [sys.executable, PROGRAM], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    called = set(json.loads(done.stdout.splitlines()[-1]))
    wanted = {
        name: function
        for path, described in CORE.items()
        if path.startswith(("datastream.connectors.", "datastream.formats."))
        for name, function in methods(path, described)
    }
    assert len(wanted) > 170
    assert [name for name, function in wanted.items() if function not in called] == []
