from penstock.taskexecutor.state.table import *  # noqa: F403
