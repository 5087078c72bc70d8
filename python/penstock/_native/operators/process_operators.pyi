from penstock.taskexecutor.compiled.process_operators import *  # noqa: F403
