"""The conversion of the slots that a job needs into workers."""

import pytest
from penstock.jobmaster.workers.resource_manager import ResourceManager, WorkerSpec, worker_sizes
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds


@pytest.mark.parametrize(
    ("slots", "configured", "places", "sizes"),
    [
        (3, None, None, [1, 1, 1]),
        (2, None, 4, [1, 1]),
        (3, None, 2, [2, 1]),
        (4, None, 2, [2, 2]),
        (5, None, 1, [5]),
        (2, None, 0, [1, 1]),
        (3, 2, 1, [2, 2]),
        (3, 1, 2, [1, 1, 1]),
    ],
)
def test_sizes(slots: int, configured: int | None, places: int | None, sizes: list[int]) -> None:
    """One slot each; spread over fewer places; as configured, whatever the places."""
    assert worker_sizes(slots, configured, places) == sizes


@pytest.mark.parametrize(
    ("configured", "places", "started", "room"),
    [
        (None, None, 2, None),  # no limit is known
        (None, 3, 2, None),  # a worker in the free place gets as many slots as are needed
        (None, 2, 2, 2),
        (2, 2, 2, 4),  # both slots are in one TaskExecutor
        (2, 1, 2, 2),
        (2, 3, 4, 6),
        (1, 1, 3, 3),  # two of them wait for a place
    ],
)
def test_room_for_a_job(
    configured: int | None, places: int | None, started: int, room: int | None
) -> None:
    class Host:
        def places(self) -> int | None:
            return places

        def start(self, requests: list[WorkerSpec]) -> None:
            pass

    resources = ResourceManager(
        Host(),  # type: ignore[arg-type]
        configured,
        lambda *_: {},
        (1, 2),
        lambda *_: None,
    )
    resources.declare(b"j" * 16, started, None, NetworkBufferNeeds())  # type: ignore[arg-type]
    assert resources.room(b"j" * 16) == room
    if room is not None:
        assert resources.room(b"k" * 16) == max(0, room - started)
