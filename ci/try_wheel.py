"""Run a job with an installed wheel: for an environment with the wheel and its dependencies alone.

Run by ci/wheels.sh, from a folder that does not have the sources.  Prints one line.
"""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from penstock import __version__
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment


def main():
    distribution = importlib.metadata.distribution("penstock-engine")
    core = [line for line in distribution.requires or () if "extra ==" not in line]
    assert len(core) <= 5, core
    assert distribution.version == __version__
    installed = {found.name.lower() for found in importlib.metadata.distributions()}
    needed = {re.match(r"[\w-]+", line)[0].lower() for line in core}
    assert installed - needed <= {"penstock-engine", "pip", "setuptools"}, installed
    settings = {"execution.target": "local", "parallelism.default": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_collection([(n % 3, n) for n in range(300)], pairs)
    with numbers.key_by(lambda pair: pair[0]).sum(1).execute_and_collect() as results:
        sums = dict(sorted(results))
    assert sums == {key: sum(range(key, 300, 3)) for key in range(3)}, sums
    command = Path(sys.executable).with_name("penstock")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert __version__ in done.stdout, done.stdout
    print(f"installed on Python {sys.version.split()[0]} beside {len(core)} packages, it ran a job")


if __name__ == "__main__":
    main()
