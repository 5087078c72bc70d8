from penstock.taskexecutor.compiled.time_operators import *  # noqa: F403
