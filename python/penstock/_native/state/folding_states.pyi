from penstock.taskexecutor.state.folding_states import *  # noqa: F403
