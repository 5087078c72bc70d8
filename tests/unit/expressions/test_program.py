"""Programs are as documented, and evaluators can run them without checks."""

import re
from pathlib import Path

import pytest
from penstock.expressions.program import LIMIT, OPERATIONS, Program

PAGE = Path(__file__).resolve().parents[3] / "docs" / "formats" / "program.md"


def test_every_operation_is_documented():
    rows = re.findall(r"^\| (`.+?) \| ", PAGE.read_text().partition("## Operations")[2], re.M)
    documented = {name.replace("\\|", "|") for row in rows for name in re.findall("`(.+?)`", row)}
    assert documented == OPERATIONS
    assert f"at most {LIMIT} registers" in PAGE.read_text()


def program(*instructions, parameters=1, lists=(), constants=None):
    return Program(parameters, instructions, lists, constants or {})


RETURN = ("return", 0, 0, 0, 0)


def test_a_program():
    assert program(("+", 1, 0, 0, 0), ("return", 0, 1, 0, 0)).parameters == 1
    assert program(("tuple", 1, 0, 0, 2), ("return", 0, 1, 0, 0), lists=(0, 0)).lists == (0, 0)


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ((), "ends with a return"),
        ((("+", 1, 0, 0, 0),), "ends with a return"),
        ((("jumps", 1, 0, 0, 0), RETURN), "is not an operation"),
        ((("call", 1, 0, 0, 0), RETURN), "calls a value that is not a function"),
        ((("row field", 1, 0, 0, 0), RETURN), "looks up a value that is not a constant"),
        ((("return", 0, 1, 0, 0),), "empty register"),
        ((("+", 1, 0, 2, 0), RETURN), "empty register"),
        ((("+", LIMIT, 0, 0, 0), RETURN), "no target"),
        ((("+", -1, 0, 0, 0), RETURN), "no target"),
        ((("jump", 0, 0, 0, 0), RETURN), "jumps to 0"),
        ((("jump", 0, 0, 0, 2), RETURN), "jumps to 2"),
        ((("jump if true", 0, 0, 0, -1), RETURN), "jumps to -1"),
        ((("tuple", 1, 0, 0, 1), RETURN), "operands that do not exist"),
        ((("tuple", 1, 0, -1, 1), RETURN), "operands that do not exist"),
        ((("field", 1, 0, 0, -1), RETURN), "takes field -1"),
        ((("unpack", 1, 0, 0, LIMIT), RETURN), f"takes field {LIMIT}"),
        ((("cell", 1, 0, 0, 0), RETURN), "looks up a value that is not a constant"),
        ((("global", 1, 0, 0, 0), RETURN), "looks up a value that is not a constant"),
        (
            # Register 1 is set on only one of two paths.
            (
                ("jump if true", 0, 0, 0, 2),
                ("move", 1, 0, 0, 0),
                ("return", 0, 1, 0, 0),
            ),
            "instruction 2, 'return', uses an empty register",
        ),
        ((*[("move", 1, 0, 0, 0)] * LIMIT, RETURN), "has room for"),
    ],
)
def test_invalid_programs(instructions, message):
    with pytest.raises(ValueError, match=message):
        program(*instructions)


@pytest.mark.parametrize(
    ("called", "operands", "message"),
    [
        (abs, (0,), "calls a value that is not a function"),
        ((abs, [int]), (0,), "calls a value that is not a function"),
        ((5, ()), (0,), "calls a value that is not a function"),
        ((abs, (5,)), (0,), "operand classes that are not classes"),
        ((abs, ()), (), "with 0 operands, not 1 to 8"),
        ((max, ()), (0,) * 9, "with 9 operands, not 1 to 8"),
    ],
)
def test_invalid_calls(called, operands, message):
    call = ("call", 2, 1, 0, len(operands))
    assert program(("call", 2, 1, 0, 1), RETURN, lists=(0,), constants={1: (abs, (int,))})
    with pytest.raises(ValueError, match=message):
        program(call, RETURN, lists=operands, constants={1: called})


def test_operands_and_constants_are_in_registers():
    with pytest.raises(ValueError, match="in no register"):
        program(RETURN, constants={LIMIT: 1})
    with pytest.raises(ValueError, match="in no register"):
        program(RETURN, lists=(-1,))
    with pytest.raises(ValueError, match="has room for"):
        program(RETURN, parameters=LIMIT + 1)
