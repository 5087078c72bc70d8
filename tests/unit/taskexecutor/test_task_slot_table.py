"""The slots of a worker: granted, rejected, released and expired ones, by a manual clock."""

import pytest
from penstock.taskexecutor.worker.task_slot_table import (
    SlotNotActiveError,
    SlotOccupiedError,
    SlotState,
    TaskSlotTable,
)

JOB, OTHER_JOB = b"job", b"other job"


@pytest.fixture
def table() -> TaskSlotTable:
    return TaskSlotTable(2, slot_timeout_s=10)


def test_a_free_slot_is_allocated_and_becomes_active(table: TaskSlotTable) -> None:
    slot = table.allocate(0, JOB, b"a", now_s=0)
    assert slot.state is SlotState.ALLOCATED
    table.mark_active(JOB, b"a")
    assert slot.state is SlotState.ACTIVE


def test_the_same_allocation_may_be_asked_for_again(table: TaskSlotTable) -> None:
    first = table.allocate(0, JOB, b"a", now_s=0)
    assert table.allocate(0, JOB, b"a", now_s=1) is first


@pytest.mark.parametrize(
    ("index", "job", "allocation"),
    [(0, JOB, b"b"), (1, JOB, b"a"), (0, OTHER_JOB, b"a"), (2, JOB, b"c"), (-1, JOB, b"c")],
)
def test_another_allocation_is_refused(
    table: TaskSlotTable, index: int, job: bytes, allocation: bytes
) -> None:
    table.allocate(0, JOB, b"a", now_s=0)
    with pytest.raises(SlotOccupiedError):
        table.allocate(index, job, allocation, now_s=0)


def test_a_task_needs_a_slot_of_its_job(table: TaskSlotTable) -> None:
    table.allocate(0, JOB, b"a", now_s=0)
    with pytest.raises(SlotNotActiveError):
        table.add_task(OTHER_JOB, b"a", b"attempt")
    with pytest.raises(SlotNotActiveError):
        table.add_task(JOB, b"b", b"attempt")


def test_a_task_makes_an_allocated_slot_active(table: TaskSlotTable) -> None:
    table.allocate(0, JOB, b"a", now_s=0)
    table.add_task(JOB, b"a", b"attempt")
    assert table.next_deadline_s() is None


def test_a_slot_that_is_released_waits_for_its_tasks(table: TaskSlotTable) -> None:
    table.allocate(0, JOB, b"a", now_s=0)
    table.add_task(JOB, b"a", b"one")
    table.add_task(JOB, b"a", b"two")
    assert table.release(b"a") == (None, {b"one", b"two"})
    with pytest.raises(SlotNotActiveError):
        table.add_task(JOB, b"a", b"three")
    assert table.remove_task(b"one") is None
    with pytest.raises(SlotOccupiedError):
        table.allocate(0, JOB, b"b", now_s=0)
    freed = table.remove_task(b"two")
    assert freed is not None
    assert freed.index == 0
    table.allocate(0, JOB, b"b", now_s=0)


def test_an_ended_task_leaves_an_active_slot_to_the_job(table: TaskSlotTable) -> None:
    table.allocate(0, JOB, b"a", now_s=0)
    table.add_task(JOB, b"a", b"one")
    assert table.remove_task(b"one") is None
    table.add_task(JOB, b"a", b"two")


def test_an_empty_slot_is_free_at_once_and_an_unknown_one_is_nothing(table: TaskSlotTable) -> None:
    slot = table.allocate(1, JOB, b"a", now_s=0)
    assert table.release(b"a") == (slot, frozenset())
    assert table.release(b"a") == (None, frozenset())
    assert table.remove_task(b"never added") is None


def test_an_offer_that_nobody_accepts_expires(table: TaskSlotTable) -> None:
    slot = table.allocate(0, JOB, b"a", now_s=5)
    table.allocate(1, JOB, b"b", now_s=6)
    table.mark_active(JOB, b"b")
    assert table.next_deadline_s() == 15
    assert table.expired(14.9) == []
    assert table.expired(15) == [slot]
