from penstock.taskexecutor.compiled.function_operators import *  # noqa: F403
