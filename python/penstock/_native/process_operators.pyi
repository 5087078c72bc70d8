from penstock.taskexecutor.process_operators import *  # noqa: F403
