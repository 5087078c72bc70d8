"""The future of a job's result can be cancelled without harm to the job."""

from types import SimpleNamespace

from penstock.common import JobClient


def test_a_cancelled_future_does_not_disturb_the_end_of_the_job():
    callbacks = []
    handle = SimpleNamespace(
        job_id=bytes(16),
        add_done_callback=callbacks.append,
        exception=lambda: None,
        result=lambda: {"seen": 3},
        runtime_ms=lambda: 5,
    )
    client = JobClient(handle)
    given_up, awaited = client.get_job_execution_result(), client.get_job_execution_result()
    assert given_up.cancel()
    for callback in callbacks:
        callback(handle)
    assert awaited.result().get_accumulator_result("seen") == 3
