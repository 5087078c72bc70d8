"""Type checkers follow the element type through a pipeline.

Method: they reveal the types of a small program.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import mypy.api
import penstock

PROGRAM = """
    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors import PythonSource, SourceSplit

    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1, 2, 3])
    texts = numbers.map(lambda v: str(v), Types.STRING())
    reveal_type(numbers)
    reveal_type(texts)
    reveal_type(texts.filter(lambda v: bool(v)).union(texts).rebalance())
    reveal_type(texts.flat_map(lambda v: v.split()))
    reveal_type(texts.key_by(lambda v: v[0]))
    reveal_type(texts.key_by(lambda v: v[0]).reduce(lambda a, b: a + b))
    reveal_type(texts.execute_and_collect())
    reveal_type(texts.execute_and_collect(limit=3))

    def read(source: PythonSource[bytes, SourceSplit]) -> None:
        reveal_type(env.from_source(source, WatermarkStrategy.no_watermarks(), "source"))
"""
REVEALED = [
    "DataStream[int]",
    "DataStream[str]",
    "DataStream[str]",
    "DataStream[str]",
    "KeyedStream[str]",
    "DataStream[str]",
    "CloseableIterator[str]",
    "list[str]",
    "DataStream[bytes]",
]


def test_mypy_follows_element_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    report, errors, status = mypy.api.run(["--strict", "--cache-dir", str(tmp_path), str(program)])
    assert (errors, status) == ("", 0), report
    lines = [line for line in report.splitlines() if "Revealed type is" in line]
    assert [line.split('"')[1].rpartition(".")[2] for line in lines] == REVEALED


def test_pyright_follows_element_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    package = Path(penstock.__file__).parent
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(package.parent)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", tmp_path], stdout=subprocess.PIPE, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["errorCount"] == 0, report
    messages = [found["message"] for found in report["generalDiagnostics"]]
    revealed = [message for message in messages if message.startswith("Type of")]
    assert [message.split('"')[-2] for message in revealed] == REVEALED
