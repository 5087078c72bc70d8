from penstock.taskexecutor.compiled.operator_loop import *  # noqa: F403
