from penstock.taskexecutor.state.type_check import *  # noqa: F403
