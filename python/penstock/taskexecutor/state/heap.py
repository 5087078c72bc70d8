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
    from penstock._native.folding_states import *  # noqa: F403
    from penstock._native.heap_states import *  # noqa: F403
    from penstock._native.key_group_entries import *  # noqa: F403
    from penstock._native.lent_values import *  # noqa: F403
    from penstock._native.map_iterators import *  # noqa: F403
    from penstock._native.state_rows import *  # noqa: F403
    from penstock._native.state_table import *  # noqa: F403
    from penstock._native.type_check import *  # noqa: F403
else:
    from penstock.taskexecutor.state.folding_states import *  # noqa: F403
    from penstock.taskexecutor.state.heap_states import *  # noqa: F403
    from penstock.taskexecutor.state.key_group_entries import *  # noqa: F403
    from penstock.taskexecutor.state.lent_values import *  # noqa: F403
    from penstock.taskexecutor.state.map_iterators import *  # noqa: F403
    from penstock.taskexecutor.state.state_rows import *  # noqa: F403
    from penstock.taskexecutor.state.table import *  # noqa: F403
    from penstock.taskexecutor.state.type_check import *  # noqa: F403
