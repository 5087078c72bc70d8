"""Calls of the session commands that cannot work are refused, with what to change."""

import pytest
from click.testing import CliRunner
from penstock.command_line.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--target", "local", "--cluster", "x", __file__], "--cluster is for target"),
        (["taskexecutor", "--jobmanager", "nowhere"], "host:port, not 'nowhere'"),
        (
            ["cluster", "start", "--target", "standalone", "--slots", "1"],
            "needs --target local",
        ),
        (["cluster", "start", "--name", "a/b"], "the name of a session has"),
        (["jobmanager", "-D", "high-availability.type=filesystem"], "needs high-availability"),
        (["jobmanager", "-D", "no.such=1"], "there is no option 'no.such'"),
        (
            ["cluster", "start", "-D", "execution.checkpointing.interval=1s"],
            "execution.checkpointing.interval is an option of jobs",
        ),
        (["taskexecutor", "-D", "state.backend=rocksdb"], "state.backend is an option of jobs"),
    ],
)
def test_wrong_calls_are_refused_in_words(own_process, arguments, message):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2)
    assert message in done.output
