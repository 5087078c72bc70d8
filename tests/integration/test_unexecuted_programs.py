"""A program that ends without `execute` warns of its sinks; any other one says nothing.

Method: small programs run in processes of their own.
"""

import subprocess
import sys
import textwrap

import pytest

BUILT = """
    from penstock.datastream import StreamExecutionEnvironment

    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1, 2]).print().name("numbers")
        return env

"""


def errors_of(tmp_path, program):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(BUILT) + textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    return done.stderr


@pytest.mark.parametrize("program", ["build()", "env = build()"])
def test_a_program_without_execute_names_its_sinks(tmp_path, program):
    errors = errors_of(tmp_path, program)
    assert f"{tmp_path / 'program.py'}:6: UserWarning: the program ends without" in errors
    assert "the job that it built for 'numbers': call execute() after the last sink" in errors


@pytest.mark.parametrize(
    "program", ["build().explain()", "build().get_execution_plan()", "build().close()"]
)
def test_a_program_that_looks_at_its_plan_says_nothing(tmp_path, program):
    assert errors_of(tmp_path, program) == ""


def test_a_program_that_fails_names_its_own_error_alone(tmp_path):
    errors = errors_of(tmp_path, "env = build()\nraise ValueError('mine')")
    assert "mine" in errors
    assert "UserWarning" not in errors
