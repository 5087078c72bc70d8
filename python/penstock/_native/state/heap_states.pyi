from penstock.taskexecutor.state.heap_states import *  # noqa: F403
