"""Values whose pickling raises: an exception whose ``__str__`` never returns, or the end of a task.

Method: a small deadline; the method waits for an event that the test sets at its end.
"""

import threading

import pytest
from penstock.common import exception_deadline
from penstock.common.typeinfo import Types
from penstock.errors import CancelTaskError, SerializationError
from penstock.serialization.codec import codec_for
from penstock.serialization.extended_values import PICKLE, rebuild_value, reduce_value
from penstock.serialization.key_form import form_of
from penstock.taskexecutor.copies.copy_plans import cannot_be_copied
from penstock.taskexecutor.task.record_sample import text_of
from support.patience import PATIENCE_S


class SilentError(Exception):
    answered = threading.Event()

    def __str__(self):
        self.answered.wait()
        return "too late"

    __repr__ = __str__


class Unpicklable:
    def __reduce__(self):
        raise SilentError


def refuse():
    raise SilentError


class Unreadable:
    def __reduce__(self):
        return refuse, ()


@pytest.fixture(autouse=True)
def silence(monkeypatch):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", 0.01)
    monkeypatch.setattr(SilentError, "answered", threading.Event())
    before = set(threading.enumerate())
    yield
    SilentError.answered.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)


def test_a_value_that_cannot_be_pickled_is_refused():
    with pytest.raises(SerializationError, match=r"cannot be pickled: .*see its __str__"):
        reduce_value(Unpicklable())


def test_a_value_that_cannot_be_read_is_refused():
    tag, data = reduce_value(Unreadable())
    assert tag == PICKLE
    with pytest.raises(SerializationError, match=r"restored: SilentError: .*see its __str__"):
        rebuild_value(tag, data)


def test_a_value_that_cannot_be_copied_is_refused():
    text = str(cannot_be_copied("map emits", object(), SilentError()))
    assert "SilentError: <the exception's class did not return its text" in text


def test_a_value_of_another_type_whose_repr_fails_is_refused(monkeypatch):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", PATIENCE_S)

    class Shy:
        def __repr__(self):
            raise SilentError

    with pytest.raises(SerializationError, match="Shy: SilentError in its __repr__"):
        codec_for(Types.INT()).encode(Shy())


class Mute:
    def __repr__(self):
        SilentError.answered.wait()
        return "too late"

    def __hash__(self):
        raise TypeError(SilentError())

    def __reduce__(self):
        return Mute, ()


def test_a_value_whose_repr_does_not_return_is_refused():
    with pytest.raises(SerializationError, match=r"<Mute: its __repr__ does not return> \(Mute\)"):
        codec_for(Types.INT()).encode(Mute())


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Types.LIST(Types.INT()), [Mute()]), (Types.TUPLE([Types.INT()]), (Mute(),))],
)
def test_a_part_whose_repr_does_not_return_is_refused(kind, value):
    with pytest.raises(SerializationError, match="its __repr__ does not return"):
        codec_for(kind).encode(value)


def test_a_key_whose_repr_does_not_return_is_refused():
    class Lock(Mute):
        def __reduce__(self):
            raise ValueError("no key")

    with pytest.raises(SerializationError, match="its __repr__ does not return"):
        form_of(Lock())


def test_a_record_whose_repr_does_not_return_is_sampled():
    assert text_of([Mute()]) == "<list: its __repr__ does not return>"


class Unhashable(type):
    def __eq__(cls, other):
        raise SilentError


class OfUnhashable(Exception, metaclass=Unhashable):
    pass


def test_a_class_that_cannot_be_compared_is_named(monkeypatch):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", PATIENCE_S)
    assert exception_deadline.described_in_time(OfUnhashable("x")) == "OfUnhashable: x"


@pytest.mark.parametrize("error", [ValueError("plain"), TypeError("one", "two"), KeyError(1)])
def test_texts_of_other_exceptions_are_whole(error, monkeypatch):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", PATIENCE_S)
    assert exception_deadline.text_in_time(error) == str(error)
    assert exception_deadline.described_in_time(error) == f"{type(error).__name__}: {error}"


def test_the_end_of_a_task_is_not_a_fault_of_a_value():
    class Interrupted:
        def __reduce__(self):
            raise CancelTaskError

    with pytest.raises(CancelTaskError):
        reduce_value(Interrupted())
