"""The progress of a job as users see it: the last line of a terminal, a notebook's cell.

The program runs in a terminal of its own, whose bytes an emulator reads: the tests check what a
user sees, and that nothing of it is lost among the output of workers and logs.
"""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte
import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from support.rest_client import environment

ROWS, COLUMNS = 20, 100

PROGRAM = """
import logging
import sys
import time
from pathlib import Path

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

mark, options = Path(sys.argv[1]), dict(one.split("=") for one in sys.argv[2:])


def wait_at_half(number):
    if number % 100 == 0:
        sys.stdout.write(f"number {number}\\n")  # one write, as of logs
        logging.getLogger("program").warning("logged %d", number)
    while number == 5000 and not mark.exists():
        time.sleep(0.01)
    return number


env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict(
        {
            "execution.target": "local",
            "penstock.runtime": "native",
            **options,
        }
    )
)
numbers = env.from_source(
    NumberSequenceSource(0, 9999), WatermarkStrategy.no_watermarks(), "numbers"
)
numbers.map(wait_at_half, Types.LONG()).filter(lambda number: number % 100 == 0).print()
env.execute("half way")
print("over")
"""


class Terminal:
    """A terminal, and the program that runs in it."""

    def __init__(self, folder: Path, *options: str, stdin_only: bool = False) -> None:
        self.mark = folder / "mark"
        program = folder / "program.py"
        program.write_text(PROGRAM)
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=10_000)
        self.stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.side, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.output = open(folder / "output", "wb")  # noqa: SIM115 (closed by end)
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(self.mark), *options],
            stdin=side,
            stdout=self.output if stdin_only else side,
            stderr=self.output if stdin_only else side,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(side)

    def read(self) -> bool:
        """Read part of the output; return False at the end."""
        try:
            found = os.read(self.side, 65536)
        except OSError:
            found = b""  # Linux: all writers have closed it
        self.written += found
        self.stream.feed(found)
        return bool(found)

    def read_until(self, holds) -> str:
        """Read until the last line satisfies a condition."""
        while not holds(self.screen.display[-1]):
            assert self.read(), self.written
        return self.screen.display[-1].rstrip()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.side)
        self.output.close()

    def end(self) -> list[str]:
        """Let the program end; return all lines that were ever shown."""
        self.mark.touch()
        while self.read():
            pass
        assert self.process.wait() == 0
        above = [
            "".join(line[column].data for column in range(COLUMNS))
            for line in self.screen.history.top
        ]
        return [line.rstrip() for line in (*above, *self.screen.display) if line.strip()]


@pytest.fixture
def opened(tmp_path):
    """Open a terminal, whose program does not outlive the test."""
    with contextlib.ExitStack() as steps:

        def open_terminal(*options, **given):
            terminal = Terminal(tmp_path, *options, **given)
            steps.callback(terminal.close)
            return terminal

        yield open_terminal


def test_the_last_line_of_a_terminal_shows_how_far_a_job_is(opened):
    terminal = opened()
    terminal.read_until(
        lambda line: re.match(
            r"half way: RUNNING \d+:\d\d, \[#+\.*\] \d\d? %, [1-5],\d{3} records, [\d,]+/s", line
        )
    )
    lines = terminal.end()
    # Nothing of the progress line is left, and no output is lost or broken.
    assert [one for one in lines if "half way" in one] == []
    hundreds = range(0, 10_000, 100)
    expected = {"over", *map(str, hundreds), *(f"number {n}" for n in hundreds)}
    assert expected <= set(lines)
    assert {int(one.split("logged ")[1]) for one in lines if "logged " in one} == set(hundreds)
    assert terminal.written.rstrip().endswith(b"over")
    assert terminal.screen.margins is None


def test_no_line_is_shown_where_it_is_turned_off(opened):
    terminal = opened("penstock.progress=false")
    assert "over" in terminal.end()
    assert b"\x1b" not in terminal.written


def test_no_line_is_written_to_what_is_not_a_terminal(opened, tmp_path):
    terminal = opened(stdin_only=True)
    assert terminal.end() == []
    assert b"\x1b" not in (tmp_path / "output").read_bytes()


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_a_client_tells_how_far_bounded_sources_are(runtime, tmp_path):
    env = environment(
        **{"penstock.runtime": runtime, "rest.bind-port": "0", "parallelism.default": "2"}
    )
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{n:09}\n" for n in range(1000)))
    mark = tmp_path / "mark"

    def held(value):
        from time import sleep

        while int(value) == 500 and not mark.exists():
            sleep(0.01)
        return value

    numbers = env.from_source(
        NumberSequenceSource(0, 999), WatermarkStrategy.no_watermarks(), "numbers"
    )
    numbers.map(held, Types.LONG()).print()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(lines)).build()
    env.from_source(files, WatermarkStrategy.no_watermarks(), "lines").map(held).print()
    env.from_collection([*range(1000)], Types.LONG()).map(held).print()
    job = env.execute_async("sources")
    found = job.get_progress()
    while found.share is None or not found.records:
        found = job.get_progress()
    assert 0 <= found.share < 1
    assert found.status == "RUNNING"
    mark.touch()
    job.get_job_execution_result().result()
    ended = job.get_progress()
    assert (ended.share, ended.status) == (1.0, "FINISHED")
    assert ended.name == "sources"
