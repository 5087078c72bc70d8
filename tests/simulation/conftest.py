"""Settings of the simulations."""

import logging

import pytest


@pytest.fixture(autouse=True)
def quiet():
    """Keep the log of what runs, which is as long as the runs are many."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
