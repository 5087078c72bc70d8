"""Settings of all tests."""

import signal

from hypothesis import settings

# What a shell starts in the background ignores Ctrl-C, and so would every process of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes measures the machine and what else it does, not the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
