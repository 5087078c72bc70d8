"""Map and list states of the selected runtime; see ``penstock.taskexecutor.state.heap``."""

from typing import TYPE_CHECKING

from penstock.runtime import runtime

if TYPE_CHECKING or runtime() != "native":
    from penstock.taskexecutor.rocksdb.element_states import *  # noqa: F403
else:
    from penstock._native.state.element_states import *  # noqa: F403
