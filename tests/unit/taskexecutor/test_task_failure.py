"""A worker's report of an exception reaches the driver, however the exception's class behaves.

Method: each exception is described, sent and rebuilt as the driver does it, without a job.
"""

import dataclasses
import sys
import threading
from types import SimpleNamespace

import msgspec
import pytest
from penstock.common import exception_deadline
from penstock.common.exception_text import attach
from penstock.errors import JobCodeError, JobExecutionError, MessageTooLargeError
from penstock.jobmaster.user_failure import exception_of, failure_of
from penstock.rpc import messages
from penstock.rpc.frames import MAX_FRAME_BYTES
from penstock.rpc.message import encode_message
from penstock.taskexecutor.task import task
from penstock.taskexecutor.task.task_failure import OPERATOR_ATTRIBUTE, describe_failure
from support.patience import PATIENCE_S

HALF = "caf\udce9"
"""A file name in Latin-1, as `os.fsdecode` returns it."""


class NoModule(Exception):
    pass


NoModule.__module__ = None  # type: ignore[assignment]


class OddModule(Exception):
    pass


OddModule.__module__ = HALF


class OddMeta(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__qualname__", "__name__"):
            raise SystemExit(name)
        return super().__getattribute__(name)


class OfOddMeta(Exception, metaclass=OddMeta):
    pass


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    text: str


class TextExits(Exception):
    def __str__(self):
        sys.exit(3)

    __repr__ = __str__


class TextIsNone(Exception):
    def __str__(self):
        return 5  # type: ignore[return-value]


class PickleExits(Exception):
    def __reduce__(self):
        return sys.exit, (3,)


class DoesNotUnpickle(Exception):
    def __init__(self, one, other):
        super().__init__(one)


class AnyAttribute(Exception):
    def __getattr__(self, name):
        return self


class NoAttribute(Exception):
    def __getattribute__(self, name):
        sys.exit(name)


class CannotBeChanged(Exception):
    def __setattr__(self, name, value):
        sys.exit(name)

    add_note = property(__setattr__)


class OwnCause(Exception):
    @property
    def __cause__(self):
        sys.exit(5)


class NotesAreNone(Exception):
    __notes__ = 5


class Own(BaseException):
    pass


def noted():
    error = ValueError("x")
    error.add_note(HALF)
    return error


def caused():
    error = ValueError("x")
    error.__cause__ = KeyError(HALF)
    return error


def its_own_cause():
    error = ValueError("x")
    error.__cause__ = error
    return error


def long_chain():
    error = ValueError("first")
    for _ in range(5000):
        following = ValueError("x")
        following.__cause__ = error
        error = following
    return error


def deep_group():
    error = ExceptionGroup("g", [ValueError(1)])
    for _ in range(3000):
        error = ExceptionGroup("g", [error])
    return error


EXCEPTIONS = {
    "half a character": lambda: ValueError(HALF),
    "of a file": lambda: FileNotFoundError(2, "not there", HALF),
    "note": noted,
    "cause": caused,
    "its own cause": its_own_cause,
    "long chain": long_chain,
    "group": lambda: ExceptionGroup(HALF, [KeyError(HALF), ValueError(1)]),
    "deep group": deep_group,
    "long text": lambda: ValueError("é" * 20_000_000),
    "large argument": lambda: ValueError(bytes(20_000_000)),
    "no module": NoModule,
    "odd module": OddModule,
    "odd class": OfOddMeta,
    "frozen": lambda: Frozen("x"),
    "text exits": TextExits,
    "text is none": TextIsNone,
    "pickle exits": PickleExits,
    "does not unpickle": lambda: DoesNotUnpickle(1, 2),
    "any attribute": AnyAttribute,
    "no attribute": NoAttribute,
    "cannot be changed": CannotBeChanged,
    "own cause": OwnCause,
    "notes are none": NotesAreNone,
    "base exception": Own,
}


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_any_exception_can_be_reported(kind):
    error = EXCEPTIONS[kind]()
    attach(error, OPERATOR_ATTRIBUTE, "Map " + HALF)
    failure = describe_failure(error, "Task", 0)
    update = messages.UpdateTaskState(b"job", bytes(40), "FAILED", failure)
    body = encode_message(update)
    assert len(body) < MAX_FRAME_BYTES // 2
    received = messages.driver_decoder().decode(body).failure
    assert received.operator == r"Map caf\udce9"
    rebuilt = exception_of(failure_of(received, "Map (1/1)", "executor"))
    assert isinstance(rebuilt, BaseException)
    assert not issubclass(type(rebuilt), SystemExit)  # isinstance calls the exception's code


def test_a_text_that_never_comes_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", 0.01)
    asked, answered = threading.Event(), threading.Event()

    class Silent(OfOddMeta):
        def __str__(self):
            asked.set()
            answered.wait()
            return "too late"

    try:
        raise Silent
    except Silent as error:
        failure = describe_failure(error, "Task", 0)
    try:
        assert asked.wait(PATIENCE_S)
        assert failure.qualname.endswith("Silent")
        assert "__str__" in failure.message
        assert "raise Silent" in failure.traceback
        assert failure.operator == "Task"
        # The driver must not create an exception of that class, whose text would be read.
        found = msgspec.structs.replace(failure, module="builtins", qualname="ValueError")
        rebuilt = exception_of(failure_of(found, "Map (1/1)", "executor"))
        assert type(rebuilt) is JobExecutionError
        assert "see its __str__" in str(rebuilt)
    finally:
        answered.set()


def test_code_that_cannot_be_loaded_fails_though_its_error_gives_no_text(monkeypatch):
    asked, answered = threading.Event(), threading.Event()

    class Asking(threading.Thread):
        """A thread whose time is over as soon as it waits for the text that never comes."""

        def join(self, timeout=None):
            assert asked.wait(PATIENCE_S)
            asked.clear()

    class Silent(Exception):
        def __str__(self):
            asked.set()
            answered.wait()
            return "too late"

    monkeypatch.setattr(exception_deadline, "threading", SimpleNamespace(Thread=Asking))

    def load(code):
        raise Silent

    monkeypatch.setattr(task, "unpickled", load)
    try:
        with pytest.raises(JobCodeError, match="see its __str__") as raised:
            task.make_invokable(b"", None)
        failure = describe_failure(raised.value, "Task", 0)
        assert failure.qualname == "JobCodeError"
        assert failure.message == str(raised.value)
    finally:
        answered.set()


def test_a_text_with_half_a_character_is_escaped():
    failure = describe_failure(ValueError("cannot parse " + HALF), "Task", 0)
    assert failure.message == r"cannot parse caf\udce9"
    assert failure.traceback.endswith("ValueError: cannot parse caf\\udce9\n")


def test_texts_of_all_messages_are_escaped():
    entry = messages.LogEntry(HALF, 1, HALF, 0.0, "", 1, "", "", "", 0, 0, "")
    sent = messages.LogRecords(HALF, (entry,), 0)
    received = messages.driver_decoder().decode(encode_message(sent))
    assert (received.executor_id, received.entries[0].message) == (r"caf\udce9", r"caf\udce9")


def test_a_message_that_fits_no_frame_is_refused_where_it_is_sent():
    accumulators = {"a": bytes(MAX_FRAME_BYTES)}
    with pytest.raises(MessageTooLargeError, match="UpdateTaskState of 104"):
        encode_message(messages.UpdateTaskState(b"job", bytes(40), "FINISHED", None, accumulators))
