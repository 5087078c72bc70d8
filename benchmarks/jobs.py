"""Measurements on running jobs."""

import contextlib

from penstock.errors import JobCancelledError


def ended(client):
    """Cancel a job and wait until it no longer writes and its discarded files are deleted."""
    client.cancel().result()
    with contextlib.suppress(JobCancelledError):
        client.get_job_execution_result().result()
