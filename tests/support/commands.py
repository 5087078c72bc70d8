"""Commands of `penstock` that run in the process of the test."""

from click.testing import CliRunner
from penstock.command_line.main import main


def penstock(*words: str, code: int = 0) -> str:
    """Return the output of a command on both streams.

    Raises:
        AssertionError: The command exits with another code.
    """
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == code, result.output
    return result.output
