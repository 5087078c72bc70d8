"""Keys that a program passes to the state of its job."""

import pytest
from penstock.errors import WrongArgumentError
from penstock.state_processor.live_state import StateOfTasks


@pytest.mark.parametrize("key", [["ada", 1], {"user": "ada"}])
def test_a_key_that_cannot_be_one_is_refused(key):
    state = StateOfTasks(None, "orders", "order")
    with pytest.raises(WrongArgumentError, match="of several fields a tuple; got unhashable"):
        state.get(key)
