"""How the slots that a job needs become workers."""

import pytest
from penstock.jobmaster.resource_manager import worker_sizes


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
