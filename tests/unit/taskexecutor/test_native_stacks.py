"""Python and native functions in one stack, of threads that continue undisturbed."""

import os
import select
import socket
import subprocess
import sys
import threading
import time

import pytest
from penstock.network import runtime
from penstock.taskexecutor.worker.native_stacks import NativeStacks, UnavailableError, merged
from support.patience import PATIENCE_S

PYTHON = "libpython3.11.so.1.0"
EVAL = ("_PyEval_EvalFrameDefault", PYTHON)


def together(native, python, *, from_outermost=True):
    """Merge both, outermost first, as one reads them; Python entries have a star."""
    frames = [(name.removesuffix("*"), name.endswith("*")) for name in reversed(python)]
    return merged(native[::-1], frames, from_outermost=from_outermost)


def test_functions_of_python_stand_where_they_are_evaluated():
    native = [
        ("clone3", "libc.so.6"), ("thread_run", PYTHON), ("method_vectorcall", PYTHON), EVAL,
        ("list_sort_impl", PYTHON), ("_PyObject_Call", PYTHON),
        ("_PyEval_EvalFrameDefault.cold", PYTHON), ("cfunction_vectorcall_O", PYTHON),
        (
            "__pyx_f_8penstock_7_native_4wire_4text_6Reader_2read",
            "text.cpython-311-x86_64-linux-gnu.so",
        ),
        ("", "libc.so.6"),
    ]  # fmt: skip
    assert together(native, ["run*", "sorts", "key*"]) == (
        "run",
        "sorts",
        "list_sort_impl (libpython3.11.so.1.0)",
        "key",
        "penstock._native.wire.text.Reader.read (text)",
        "(libc.so.6)",
    )


def test_work_of_the_interpreter_is_seen():
    native = [EVAL, ("dict_resize.isra.0", PYTHON), ("PyObject_Malloc", PYTHON)]
    assert together(native, ["run*"]) == (
        "run",
        "dict_resize (libpython3.11.so.1.0)",
        "PyObject_Malloc (libpython3.11.so.1.0)",
    )


def test_an_evaluation_that_begins_or_ends_has_no_function():
    assert together([EVAL, ("map_next", PYTHON), EVAL], ["run*"]) == (
        "run",
        "map_next (libpython3.11.so.1.0)",
    )
    assert together([EVAL], ["run*", "ended*"]) == ("run",)


def test_stacks_that_are_cut_meet_at_their_innermost():
    native = [EVAL, ("map_next", PYTHON), EVAL, ("long_add", PYTHON)]
    leaf = "long_add (libpython3.11.so.1.0)"
    between = "map_next (libpython3.11.so.1.0)"
    python = ["main*", "run*", "each*"]
    assert together(native, python, from_outermost=False) == ("main", "run", between, "each", leaf)
    assert together(native, ["each*"], from_outermost=False) == (between, "each", leaf)
    assert together([("read", "libc.so.6")], ["run*"], from_outermost=False) == (
        "run",
        "read (libc.so.6)",
    )


def test_threads_without_python_show_what_is_native():
    assert together([("clone3", "libc.so.6"), ("work", "libx.so")], []) == (
        "clone3 (libc.so.6)",
        "work (libx.so)",
    )


@pytest.fixture
def stacks():
    if runtime() != "native":
        pytest.skip("the pure runtime has no native stacks")
    return NativeStacks()


def computes_until(ended):
    while not ended.is_set():
        sorted(range(5000), key=lambda number: -number)


def test_a_function_is_seen_from_python_to_native_code(stacks):
    ended = threading.Event()
    thread = threading.Thread(target=computes_until, args=(ended,))
    thread.start()
    own = f".{computes_until.__name__}:"
    inside = []
    try:
        # Interpreters without a table of their functions appear only as their library.
        while not inside:
            for frames, _ in stacks.look([thread], 1, 100):
                assert frames[0].startswith("threading.Thread._bootstrap:")
                begun = [i for i, frame in enumerate(frames) if own in frame][:1]
                inside = [frame for i in begun for frame in frames[i:] if frame.endswith(")")]
        line = int(frames[begun[0]].rpartition(":")[2])
        first = computes_until.__code__.co_firstlineno
        assert first < line <= first + 2
    finally:
        ended.set()
        thread.join()


def waits(results, seen):
    """Wait in all of Python's ways, at last until seen; signals must end no wait early."""
    lock, one, other = threading.Lock(), *socket.socketpair()
    lock.acquire()
    for wait, expected in (
        (lambda: time.sleep(0.05), None),
        (lambda: lock.acquire(timeout=0.05), False),
        (lambda: select.select([one], [], [], 0.05)[0], []),
        (lambda: threading.Event().wait(0.05), False),
    ):
        begun = time.monotonic()
        results.append((wait() == expected, time.monotonic() - begun >= 0.049))
    one.settimeout(0.05)
    with pytest.raises(TimeoutError):
        one.recv(1)
    code = "import time; time.sleep(0.05); print(7)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    results.append((found.stdout == b"7\n", True))
    reader, writer = os.pipe()
    timer = threading.Timer(0.05, os.write, (writer, b"x"))
    timer.start()
    results.append((os.read(reader, 1) == b"x", True))
    timer.join()
    for end in (reader, writer):
        os.close(end)
    one.close()
    other.close()
    results.append((seen.wait(PATIENCE_S), True))


@pytest.mark.process
def test_waiting_threads_continue_to_wait(stacks):
    results, seen = [], threading.Event()
    thread = threading.Thread(target=waits, args=(results, seen))
    thread.start()
    while thread.is_alive():
        if not all(is_running for _, is_running in stacks.look([thread], 1, 100)):
            seen.set()
    thread.join()
    assert results == [(True, True)] * 7


def test_a_thread_that_has_ended_is_not_seen(stacks):
    thread = threading.Thread(target=str)
    thread.start()
    thread.join()
    assert stacks.look([thread], 1, 100) == []


def test_the_pure_runtime_says_that_it_has_none(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    with pytest.raises(UnavailableError, match="PENSTOCK_RUNTIME=pure"):
        NativeStacks()


def test_a_library_that_was_replaced_keeps_its_name():
    native = [EVAL, ("", "_core.cpython-311-x86_64-linux-gnu.so (deleted)")]
    assert together(native, ["run*"]) == ("run", "(_core)")
