"""The progress of a job, as a line (`JobProgress`)."""

import pytest
from penstock.common.jobs.job_progress import JobProgress


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (JobProgress("a", "CREATED", 999), "a: CREATED 0:00"),
        (
            JobProgress("a", "RUNNING", 61_000, share=0.999, records=1234, records_per_s=0.4),
            "a: RUNNING 1:01, [###################.] 99 %, 1,234 records, 0/s",
        ),
        (
            JobProgress("a", "FINISHED", 3_600_000, share=1.0, checkpoints=1),
            "a: FINISHED 60:00, [####################] 100 %, 1 checkpoint",
        ),
        (
            JobProgress(
                "a",
                "RESTARTING",
                0,
                restarts=2,
                checkpoints=3,
                failed_checkpoints=1,
                last_checkpoint_ms=7,
            ),
            "a: RESTARTING 0:00, 3 checkpoints (last 7 ms), 1 failed, 2 restarts",
        ),
    ],
)
def test_the_line_has_what_is_known(progress, text):
    assert progress.text() == text
