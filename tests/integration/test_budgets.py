"""The budgets of a job without extras: imported modules and required distributions.

Numbers of modules stand for the import time, which depends on the machine.  The size of a wheel is
checked where wheels are built, in ci/wheels.sh.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Prints the modules after each step.
PROGRAM = """
import json, sys
import penstock.datastream
steps = [sorted(sys.modules)]
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment
target = Configuration.from_dict({"execution.target": "in-process"})
env = StreamExecutionEnvironment.get_execution_environment(target)
steps.append(sorted(sys.modules))
numbers = env.from_collection([1, 2, 3], Types.LONG()).map(lambda n: n + 1, Types.LONG())
with numbers.key_by(lambda n: n % 2).reduce(max).execute_and_collect() as results:
    assert sorted(results) == [2, 3, 4]
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


def test_the_core_needs_at_most_five_distributions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert 0 < len(project["dependencies"]) <= 5
