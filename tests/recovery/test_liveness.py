"""Workers that send heartbeats while their tasks are stuck are found and replaced (M49, TM).

Method: a function blocks once, in a write that is never read, or in a call that holds the
interpreter's lock; the job must write the same as an undisturbed one.
"""

import ctypes
import os

from recovery.sink_programs import Fate, expected_lines, fates, write_files

ELEMENTS = 2_000
OPTIONS = {"task.liveness.timeout": "3 s", "execution.target": "local"}


class HeldFate(Fate):
    """Blocks the task's thread for ever."""

    def strike(self, moment):
        try:
            os.unlink(os.path.join(self.folder, moment))
        except FileNotFoundError:
            return
        if self.how == "write":
            _, writer = os.pipe()
            while True:
                os.write(writer, bytes(65536))
        ctypes.PyDLL(None).pause()  # a PyDLL keeps the lock


def written(folder):
    paths = [path for path in (folder / "out").iterdir() if not path.name.startswith(".")]
    return sorted(line for path in paths for line in path.read_text().split("\n")[:-1])


def run(tmp_path, how):
    fates(tmp_path / "fates", ["on the way"])
    options = {**OPTIONS, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    fate = HeldFate(tmp_path / "fates", how)
    write_files(tmp_path / "out", ELEMENTS, "on checkpoint", fate, options)
    assert written(tmp_path) == expected_lines(ELEMENTS)
    assert not list((tmp_path / "fates").iterdir()), "it was held"


def test_a_worker_whose_task_is_held_by_a_write_is_replaced(tmp_path, caplog):
    """As by a disk that hangs."""
    run(tmp_path, "write")
    assert "makes no progress: its thread has taken no mail" in caplog.text


def test_a_worker_whose_interpreter_is_held_is_replaced(tmp_path, capfd):
    """No Python thread can detect that; the stacks of all threads are on standard error."""
    run(tmp_path, "lock")
    said = capfd.readouterr().err
    assert "Timeout (" in said
    assert "in strike" in said
