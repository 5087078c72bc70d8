"""Settings of all tests."""

from hypothesis import settings

# How long one example takes measures the machine and what else it does, not the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
