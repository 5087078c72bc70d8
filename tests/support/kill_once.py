"""A function that kills its worker, for tests of what a restart continues with."""

import os
import signal
from pathlib import Path

from penstock.datastream import MapFunction


class KillOnce(MapFunction):
    """Passes values on, and kills its worker at some of them, once at each."""

    def __init__(self, folder, *ats, part=lambda value: value):
        """Create a function.

        Args:
            folder: Where it notes the values at which it has killed a worker.
            ats: The values.
            part: Returns the part of a value to compare.
        """
        self.folder, self.ats, self.part = str(folder), ats, part

    def map(self, value):
        at = self.part(value)
        if at in self.ats:
            try:
                Path(self.folder, f"killed-{at}").touch(exist_ok=False)
            except FileExistsError:
                return value
            os.kill(os.getpid(), signal.SIGKILL)
        return value
