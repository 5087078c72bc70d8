"""The ends of logs: bounded, read from a position on, without a change of the program's logging."""

import logging

from penstock.jobmaster.workers import log_tails
from penstock.jobmaster.workers.log_tails import DRIVER, DriverLog, LogTail, LogTails


def test_a_reader_continues_where_it_was():
    tail = LogTail()
    tail.append("one", 1.0)
    text, position = tail.read()
    assert (text, tail.changed_s) == ("one\n", 1.0)
    tail.append("two\nlines", 2.0)
    assert tail.read(position) == ("two\nlines\n", position + 10)
    assert tail.read(position + 10) == ("", position + 10)
    assert tail.read(10_000) == ("", position + 10)


def test_old_lines_make_room(monkeypatch):
    monkeypatch.setattr(log_tails, "MAX_CHARACTERS", 40)
    tail = LogTail()
    for number in range(20):
        tail.append(f"line {number}", 0.0)
    text, position = tail.read()
    assert text.endswith("line 18\nline 19\n")
    assert len(text) <= 40
    assert position == sum(len(f"line {number}\n") for number in range(20))
    assert tail.read(1)[0] == text  # dropped text cannot be read
    tail.append("x" * 1000, 0.0)
    assert len(tail.read()[0]) <= 40


def test_logs_of_workers_that_went_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(log_tails, "MAX_LOGS", 3)
    tails = LogTails()
    tails.of(DRIVER).append("driver", 0.0)
    for number in range(5):
        tails.of(f"w{number}").append("worker", 0.0)
    assert tails.of(DRIVER).read()[0] == "driver\n"
    assert tails.of("w4").read()[0] == "worker\n"
    assert tails.of("w0").read()[0] == ""


def bare_root(monkeypatch):
    """Configure logging as a program without handlers has it; in the test, as pytest adds some."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    return root


def test_a_program_without_handlers_sees_its_warnings_as_before(monkeypatch, capsys):
    tail = LogTail()
    bare_root(monkeypatch).addHandler(DriverLog(tail))
    logging.getLogger("some.library").warning("look out %d", 7)
    assert "look out 7" in tail.read()[0]
    assert "look out 7\n" in capsys.readouterr().err


def test_a_program_with_handlers_sees_nothing_twice(monkeypatch, capsys):
    tail, seen = LogTail(), []

    class Own(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    root = bare_root(monkeypatch)
    root.addHandler(Own())
    root.addHandler(DriverLog(tail))
    logging.getLogger("x").warning("once")
    record = logging.makeLogRecord(
        {"msg": "of a worker", "operator": None, "subtask": None, "levelno": 30}
    )
    logging.getLogger("x").handle(record)
    assert seen == ["once", "of a worker"]
    assert "once" in tail.read()[0]
    assert "of a worker" not in tail.read()[0]
    assert capsys.readouterr().err == ""
