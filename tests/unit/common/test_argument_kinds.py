"""Arguments of the API have the kinds that their declarations state."""

from __future__ import annotations

import pytest
from penstock.common import Configuration, Duration
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import WrongArgumentError


@checks_arguments
class Checked:
    """Has one parameter of each kind."""

    def __init__(self, text: str, maybe: str | None = None) -> None:
        self.text = text

    def whole(self, number: int, *, flag: bool = False) -> int:
        return number

    @staticmethod
    def half(number: float) -> float:
        return number

    def anything(self, value: object) -> object:
        return value


@pytest.mark.parametrize("value", [1.5, True, "1", None, 2**63, -(2**63) - 1, [1]])
def test_a_whole_number_has_64_bits_and_is_no_flag(value):
    with pytest.raises(WrongArgumentError, match="number must be"):
        Checked("a").whole(value)
    with pytest.raises(WrongArgumentError):
        Checked("a").whole(number=value)


def test_flags_numbers_and_texts_are_distinguished():
    assert Checked("a", maybe=None).whole(2**63 - 1, flag=True) == 2**63 - 1
    assert [Checked.half(1), Checked.half(1.5)] == [1, 1.5]
    with pytest.raises(WrongArgumentError, match="flag"):
        Checked("a").whole(1, flag=1)
    with pytest.raises(WrongArgumentError, match="number"):
        Checked.half("1")
    with pytest.raises(WrongArgumentError, match="Checked: text"):
        Checked(None)
    with pytest.raises(WrongArgumentError, match="Checked: maybe"):
        Checked("a", 5)
    assert Checked("a").anything(None) is None


def test_missing_and_unknown_arguments_are_python_s_own_errors():
    with pytest.raises(TypeError, match="missing"):
        Checked("a").whole()
    with pytest.raises(TypeError, match="unknown"):
        Checked("a").whole(1, unknown=2)


def test_the_api_is_checked():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([1])
    for call in (
        lambda: env.set_parallelism(True),
        lambda: env.set_parallelism("2"),
        lambda: env.get_config().set_latency_tracking_interval(None),
        lambda: env.get_checkpoint_config().enable_unaligned_checkpoints(1),
        lambda: env.get_checkpoint_config().set_aligned_checkpoint_timeout(1000),
        lambda: Configuration().get_integer("key", None),
        lambda: Duration.of_seconds(1.5),
        lambda: stream.uid(1),
        lambda: stream.set_description(1),
        lambda: stream.set_buffer_timeout(1.5),
        lambda: stream.print().name(True),
    ):
        with pytest.raises(WrongArgumentError):
            call()
