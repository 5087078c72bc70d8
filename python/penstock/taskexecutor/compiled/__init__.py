"""The operator loop of the runtime in use: compiled for ``native``, plain Python for ``pure``.

Other modules import the names of ``operator_loop`` and of the operators built on it from here, so
that one process never mixes classes of both runtimes.
"""

from typing import TYPE_CHECKING, Final

from penstock.runtime import runtime

LOADED: Final = runtime()
"""Runtime whose operators this process uses, whatever ``PENSTOCK_RUNTIME`` says later."""

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled.field_sum import *  # noqa: F403
    from penstock.taskexecutor.compiled.function_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.operator_loop import *  # noqa: F403
    from penstock.taskexecutor.compiled.process_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.session_heap import *  # noqa: F403
    from penstock.taskexecutor.compiled.source_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.time_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.timer_queue import *  # noqa: F403
    from penstock.taskexecutor.compiled.timers import *  # noqa: F403
    from penstock.taskexecutor.compiled.value_copies import *  # noqa: F403
    from penstock.taskexecutor.compiled.window_operators import *  # noqa: F403
elif LOADED == "native":
    from penstock._native.operators.field_sum import *  # noqa: F403
    from penstock._native.operators.function_operators import *  # noqa: F403
    from penstock._native.operators.operator_loop import *  # noqa: F403
    from penstock._native.operators.process_operators import *  # noqa: F403
    from penstock._native.operators.session_heap import *  # noqa: F403
    from penstock._native.operators.source_operators import *  # noqa: F403
    from penstock._native.operators.time_operators import *  # noqa: F403
    from penstock._native.operators.timer_queue import *  # noqa: F403
    from penstock._native.operators.timers import *  # noqa: F403
    from penstock._native.operators.window_operators import *  # noqa: F403
    from penstock._native.values.value_copies import *  # noqa: F403
else:
    from penstock.taskexecutor.compiled.field_sum import *  # noqa: F403
    from penstock.taskexecutor.compiled.function_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.operator_loop import *  # noqa: F403
    from penstock.taskexecutor.compiled.process_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.session_heap import *  # noqa: F403
    from penstock.taskexecutor.compiled.source_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.time_operators import *  # noqa: F403
    from penstock.taskexecutor.compiled.timer_queue import *  # noqa: F403
    from penstock.taskexecutor.compiled.timers import *  # noqa: F403
    from penstock.taskexecutor.compiled.value_copies import *  # noqa: F403
    from penstock.taskexecutor.compiled.window_operators import *  # noqa: F403
