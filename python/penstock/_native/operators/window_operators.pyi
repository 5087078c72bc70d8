from penstock.taskexecutor.compiled.window_operators import *  # noqa: F403
