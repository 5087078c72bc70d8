"""Results between their arrival and the checkpoint that includes them (internals M64)."""

import pytest
from penstock.errors import CorruptStreamError
from penstock.jobmaster.uncommitted_results import UncommittedResults


def started(*batches, offset=0):
    results = UncommittedResults()
    assert results.resume(0, offset) == []
    for batch in batches:
        results.add(0, batch)
    return results


def test_batches_are_shown_once_a_checkpoint_holds_them():
    results = started(b"a", b"b", b"c")
    assert results.commit(0, 2) == [b"a", b"b"]
    assert results.commit(0, 2) == []
    results.add(0, b"d")
    assert results.finish(0) == [b"c", b"d"]


def test_results_of_a_lost_attempt_since_the_checkpoint_are_dropped():
    results = started(b"a", b"b", b"c")
    assert results.commit(0, 1) == [b"a"]
    assert results.resume(1, 2) == [b"b"], "its checkpoint was complete, which nobody had told"
    results.add(1, b"C")
    results.check_complete(1, 3)
    assert results.finish(1) == [b"C"]


def test_an_attempt_may_start_again():
    results = started(b"a")
    assert results.resume(3, 0) == []
    results.add(3, b"A")
    assert results.finish(3) == [b"A"]


def test_a_job_that_continues_from_a_savepoint_counts_on():
    results = started(b"a", offset=7)
    results.check_complete(0, 8)
    assert results.commit(0, 8) == [b"a"]


@pytest.mark.parametrize("act", ["add", "commit", "check_complete", "resume", "finish"])
def test_an_attempt_that_is_over_is_refused(act):
    results = started(b"a")
    results.resume(1, 1)
    arguments = {"add": (b"b",), "finish": ()}.get(act, (1,))
    with pytest.raises(CorruptStreamError, match="attempt 0 of a collect sink"):
        getattr(results, act)(0, *arguments)


@pytest.mark.parametrize("offset", [0, 4])
def test_batches_that_are_missing_or_were_shown_are_an_error(offset):
    results = started(b"a", b"b", b"c")
    results.commit(0, 1)
    with pytest.raises(CorruptStreamError, match="but 3 have arrived, and 1 were returned"):
        results.resume(1, offset)


def test_a_checkpoint_that_lacks_a_batch_is_an_error():
    with pytest.raises(CorruptStreamError, match="sent 2 batches, but 1 have arrived"):
        started(b"a").check_complete(0, 2)
