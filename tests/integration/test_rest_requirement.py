"""Without the packages of the REST interface, features that need it name the user's own option."""

from pathlib import Path

import pytest
from e2e.running import run_program

PROGRAM = """
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
env.execute()
"""
LOCAL = ("run", "--target", "local")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jobmanager", "--port", "0"], "a session has a REST interface"),
        (["cluster", "start", "--slots", "1"], "a session has a REST interface"),
        (["jobmanager", "--port", "0", "-D", "rest.port=0"], "rest.bind-port is set"),
        ([*LOCAL, "-d", "PROGRAM"], "-d has the REST interface on"),
        ([*LOCAL, "-D", "rest.port=0", "PROGRAM"], "rest.bind-port is set"),
        (["demo", "--no-browser"], "the demo is a job with a dashboard"),
    ],
)
def test_the_error_names_the_feature_that_needs_the_rest_interface(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "starlette.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'starlette'\", name='starlette')\n"
    )
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    outcome = run_program(
        ["-m", "penstock", *(str(program) if word == "PROGRAM" else word for word in arguments)],
        PYTHONPATH=str(tmp_path),
        PENSTOCK_RUN_DIR=str(tmp_path / "run"),
    )
    assert outcome.code == 1
    said = " ".join(outcome.err.split())
    assert f"{words}, and starlette is not installed: pip install 'penstock-engine[rest]'" in said
