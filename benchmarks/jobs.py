"""Measurements on running jobs."""

import contextlib

from penstock.errors import JobCancelledError


def ended(client):
    """Cancels a job and waits until it writes nothing more and what it discards is deleted."""
    client.cancel().result()
    with contextlib.suppress(JobCancelledError):
        client.get_job_execution_result().result()
