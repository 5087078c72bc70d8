"""Jobs that are cancelled in the middle, while their results are read."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from penstock.errors import JobCancelledError
from support.patience import eventually


def cancel_once(results, condition, what):
    """Read a job's results until a condition holds; then cancel the job and wait for its end.

    A checkpoint waits for unread results, and older checkpoints are deleted until the job's end.
    """
    with ThreadPoolExecutor(1) as reader, results:
        read = reader.submit(list, results)
        eventually(condition, what)
        results.get_job_client().cancel().result()
        with pytest.raises(JobCancelledError):
            read.result()
