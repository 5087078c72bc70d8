"""A program that a supervisor restarts: ``supervised.py FOLDER ELEMENTS OPTIONS``.

Its output is in ``out``; each file in ``fates`` kills the driver at one moment.  As long as a file
``held`` is there, no element passes behind the first checkpoint.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

from recovery.sink_programs import Fate, write_files


class DriverFate(Fate):
    """Kills the driver, which ends the worker; each driver at only one moment."""

    def __init__(self, folder):
        super().__init__(folder, "kill driver")
        self.driver = os.getpid()

    def strike(self, moment):
        while moment == "on the way" and Path(self.folder, "held").exists():
            threading.Event().wait(0.01)
        if not Path(self.folder, moment).exists():
            return
        # Another subtask may have killed it already, and this worker is about to end.
        with contextlib.suppress(FileExistsError):
            Path(f"{self.folder}-of-{self.driver}").touch(exist_ok=False)
            Path(self.folder, moment).unlink()
            os.kill(self.driver, signal.SIGKILL)
        threading.Event().wait()


def main(folder, elements, options):
    options = {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(folder / "high-availability"),
        "high-availability.cluster-id": "supervised",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        **options,
    }
    write_files(folder / "out", elements, "on checkpoint", DriverFate(folder / "fates"), options)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
