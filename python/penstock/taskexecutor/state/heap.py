"""The in-memory keyed state of the selected runtime; see ``penstock.taskexecutor.compiled``."""

from typing import TYPE_CHECKING

from penstock.runtime import runtime

if TYPE_CHECKING:
    from penstock.taskexecutor.state.folding_states import *  # noqa: F403
    from penstock.taskexecutor.state.heap_states import *  # noqa: F403
    from penstock.taskexecutor.state.key_group_entries import *  # noqa: F403
    from penstock.taskexecutor.state.lent_values import *  # noqa: F403
    from penstock.taskexecutor.state.map_iterators import *  # noqa: F403
    from penstock.taskexecutor.state.state_rows import *  # noqa: F403
    from penstock.taskexecutor.state.table import *  # noqa: F403
    from penstock.taskexecutor.state.type_check import *  # noqa: F403
elif runtime() == "native":
    from penstock._native.state.folding_states import *  # noqa: F403
    from penstock._native.state.heap_states import *  # noqa: F403
    from penstock._native.state.key_group_entries import *  # noqa: F403
    from penstock._native.state.lent_values import *  # noqa: F403
    from penstock._native.state.map_iterators import *  # noqa: F403
    from penstock._native.state.state_rows import *  # noqa: F403
    from penstock._native.state.state_table import *  # noqa: F403
    from penstock._native.state.type_check import *  # noqa: F403
else:
    from penstock.taskexecutor.state.folding_states import *  # noqa: F403
    from penstock.taskexecutor.state.heap_states import *  # noqa: F403
    from penstock.taskexecutor.state.key_group_entries import *  # noqa: F403
    from penstock.taskexecutor.state.lent_values import *  # noqa: F403
    from penstock.taskexecutor.state.map_iterators import *  # noqa: F403
    from penstock.taskexecutor.state.state_rows import *  # noqa: F403
    from penstock.taskexecutor.state.table import *  # noqa: F403
    from penstock.taskexecutor.state.type_check import *  # noqa: F403
