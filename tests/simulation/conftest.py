"""Settings of the simulations."""

import logging

import pytest


@pytest.fixture(autouse=True)
def quiet():
    """Silence the log, which would be as long as the runs are many."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
