"""Names and options that cannot be stored or sent are rejected when the program sets them."""

import pytest
from penstock.common import Configuration, Types
from penstock.common.calls.names import MAX_NAME_BYTES
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import InvalidProgramError

HALF = "caf\udce9"


def stream():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    return env.from_collection([1], Types.LONG())


NAMED = {
    "an operator": lambda name: stream().map(lambda v: v).name(name),
    "an operator's state": lambda name: stream().map(lambda v: v).uid(name),
    "a description": lambda name: stream().set_description(name),
    "a slot sharing group": lambda name: stream().map(lambda v: v).slot_sharing_group(name),
    "a state": lambda name: ValueStateDescriptor(name, Types.LONG()),
    "a side output": lambda name: OutputTag(name, Types.LONG()),
}


@pytest.mark.parametrize("what", NAMED)
def test_a_name_with_half_a_character_is_refused(what):
    with pytest.raises(InvalidProgramError, match=rf"{what}, 'caf\\udce9', .* at position 3"):
        NAMED[what](HALF)


@pytest.mark.parametrize("what", NAMED)
def test_a_name_has_a_bound(what):
    NAMED[what]("x" * MAX_NAME_BYTES)
    with pytest.raises(InvalidProgramError, match=f"{what}, .* has 65536 bytes"):
        NAMED[what]("é" * (MAX_NAME_BYTES // 2 + 1))


def test_a_job_parameter_with_half_a_character_is_refused():
    config = StreamExecutionEnvironment.get_execution_environment(Configuration()).get_config()
    with pytest.raises(InvalidProgramError, match=r"job parameter 'folder', 'caf\\udce9', cannot"):
        config.set_global_job_parameters({"folder": HALF})
    with pytest.raises(InvalidProgramError, match=r"name of a job parameter, 'caf\\udce9', cannot"):
        config.set_global_job_parameters({HALF: "x"})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("/tmp/" + HALF, r"option 'execution.checkpointing.dir', '/tmp/caf\\udce9', cannot"),
        ("/" + "x" * 5_000_000, "options have 5.* of which 'execution.checkpointing.dir' has 5"),
    ],
)
def test_an_option_that_cannot_be_sent_is_refused(value, told):
    options = Configuration.from_dict({"execution.checkpointing.dir": value})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.from_collection([1], Types.LONG()).print()
    with pytest.raises(InvalidProgramError, match=told):
        env.get_execution_plan()


def test_a_job_name_with_half_a_character_is_refused():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.from_collection([1], Types.LONG()).print()
    with pytest.raises(InvalidProgramError, match=r"name of a job, 'caf\\udce9', cannot"):
        env.execute(HALF)
