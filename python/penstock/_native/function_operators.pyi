from penstock.taskexecutor.function_operators import *  # noqa: F403
