"""One lock for the imports of all tasks of a process.

The threads of several tasks start at the same time and import the same packages.  Python locks
each module by itself, and packages that import each other make two threads wait for one another;
Python then breaks one of the imports with a deadlock error.
"""

from __future__ import annotations

import threading
from typing import Final

#: Held while a task unpickles job code or imports an operator.
IMPORT_LOCK: Final = threading.RLock()
