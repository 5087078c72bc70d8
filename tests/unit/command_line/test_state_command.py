"""Errors of ``penstock state`` before it asks a cluster or opens a file."""

from click.testing import CliRunner
from penstock.command_line.state_command import state


def test_a_wrong_condition_is_named_without_a_line_of_a_program():
    words = ["-s", "nowhere", "counts", "count", "--where", "valeu > 3"]
    result = CliRunner().invoke(state, words)
    assert result.exit_code == 1
    message = (
        "Error: a condition names key, namespace or value, or a field of them such as value.price"
    )
    assert result.output == f"{message}, got 'valeu'\n"
