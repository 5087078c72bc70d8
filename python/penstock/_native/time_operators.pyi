from penstock.taskexecutor.time_operators import *  # noqa: F403
