"""The time zone of this process and of those that it starts."""

import os
import time
from contextlib import contextmanager


@contextmanager
def machine_in(zone):
    """Lets this process, and the workers that it starts meanwhile, be in a time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
