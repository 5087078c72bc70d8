"""What is known of a job that has ended while its cluster is still closing."""

from penstock.jobmaster.job_handle import JobHandle
from penstock.jobmaster.states import JobStatus


def handle_of(accumulators):
    return JobHandle(bytes(16), "job", None, accumulators, None, None, None)


def test_accumulators_stay_when_there_is_nobody_to_ask():
    handle = handle_of(dict)
    handle.set_result(JobStatus.FINISHED, None, {"count": 3})
    assert handle.accumulators() == {"count": 3}
    handle.complete()
    assert handle.accumulators() == {"count": 3}


def test_so_do_those_of_a_job_that_ends_while_it_is_asked():
    def end():
        handle.set_result(JobStatus.FINISHED, None, {"count": 3})
        return {}

    handle = handle_of(end)
    assert handle.accumulators() == {"count": 3}
