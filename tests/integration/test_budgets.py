"""The budgets of a job without extras: imported modules and required distributions.

Numbers of modules stand for the import time, which depends on the machine.  The size of a wheel is
checked by ci/wheel_budget.sh where one is built, in CI as well.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUDGET = ROOT / "ci" / "wheel_budget.sh"

#: Prints the modules after each step.
PROGRAM = """
import json, sys
import penstock.datastream
steps = [sorted(sys.modules)]
from penstock.common import Configuration, Row, Types
from penstock.datastream import StreamExecutionEnvironment
target = Configuration.from_dict({"execution.target": "in-process"})
env = StreamExecutionEnvironment.get_execution_environment(target)
steps.append(sorted(sys.modules))
numbers = env.from_collection([1, 2, 3], Types.LONG()).map(lambda n: n + 1, Types.LONG())
with numbers.key_by(lambda n: n % 2).reduce(max).execute_and_collect() as results:
    assert sorted(results) == [2, 3, 4]
price = Types.ROW_NAMED(["shop", "price"], [Types.STRING(), Types.LONG()])
prices = env.from_collection([Row("a", 1), Row("a", 2)], price).key_by("shop")
with prices.top_n(1, by="price").execute_and_collect() as results:
    assert len(list(results)) == 3
steps.append(sorted(sys.modules))
print(json.dumps(steps))
"""

#: Packages of extras, which only programs that use them import.
OF_EXTRAS = {
    "confluent_kafka",
    "cryptography",
    "fastavro",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rich",
    "rocksdict",
    "sqlalchemy",
    "sqlglot",
    "starlette",
}


def test_imports_stay_within_the_budget():
    """150 ms of a slow machine correspond to about 400 modules."""
    run = subprocess.run([sys.executable, "-I", "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    package, environment, job = map(set, json.loads(run.stdout))
    assert len(package) < 120
    assert len(environment) < 420
    assert {"penstock._core", "msgspec"} <= job
    assert {name.partition(".")[0] for name in job} & OF_EXTRAS == set()
    # Of workers, too: this one runs in the same process.
    assert "penstock.columns.combining" not in job, "only combined rows need it"


#: Imports the modules that pages of the reference show, without the packages that it is given.
PAGES = """
import importlib, json, os, sys
os.environ["PENSTOCK_RUNTIME"] = "pure"
modules, absent = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(absent))
for module in map(importlib.import_module, modules):
    for name in getattr(module, "__all__", []):
        getattr(module, name)
"""


def test_the_group_docs_has_the_packages_that_the_reference_imports():
    """`make docs` installs this group and the core's dependencies alone."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    installed = {re.match(r"[\w-]+", line)[0] for line in groups["docs"]}
    absent = sorted(OF_EXTRAS - installed)
    modules = [page.stem for page in (ROOT / "docs" / "reference").glob("*.md")]
    words = [sys.executable, "-W", "ignore", "-c", PAGES, json.dumps([modules, absent])]
    run = subprocess.run(words, capture_output=True, text=True)
    assert len(modules) > 10
    assert run.returncode == 0, run.stderr


def test_the_core_needs_at_most_five_distributions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert 0 < len(project["dependencies"]) <= 5


@pytest.mark.parametrize(("megabytes", "code"), [(10, 0), (11, 1)])
def test_a_wheel_has_at_most_ten_megabytes(megabytes, code, tmp_path):
    wheel = tmp_path / "some.whl"
    with wheel.open("wb") as file:
        file.truncate(megabytes * 1_000_000)
    run = subprocess.run(["sh", str(BUDGET), str(wheel)], capture_output=True, text=True)
    assert run.returncode == code
    assert ("more than the budget of 10000000" in run.stderr) == bool(code)
    for script in ("install.sh", "wheels.sh"):
        assert f"sh ci/{BUDGET.name} " in BUDGET.with_name(script).read_text()
