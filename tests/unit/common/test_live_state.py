"""Keys and names that a program passes to the state of its job."""

import pytest
from penstock.errors import WrongArgumentError
from penstock.state_processor.live_state import StateOfTasks


@pytest.mark.parametrize("key", [["ada", 1], {"user": "ada"}])
def test_a_key_that_cannot_be_one_is_refused(key):
    state = StateOfTasks(None, "orders", "order")
    with pytest.raises(WrongArgumentError, match="of several fields a tuple; got unhashable"):
        state.get(key)


@pytest.mark.parametrize(("operator", "name"), [(3, "order"), ("orders", None)])
def test_the_names_of_a_state_are_strings(operator, name):
    with pytest.raises(WrongArgumentError, match=r"is a string, got (3|None)"):
        StateOfTasks(None, operator, name)
