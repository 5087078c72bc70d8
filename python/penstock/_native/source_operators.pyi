from penstock.taskexecutor.source_operators import *  # noqa: F403
