from penstock.taskexecutor.operator_loop import *  # noqa: F403
