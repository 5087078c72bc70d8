from penstock.taskexecutor.compiled.timers import *  # noqa: F403
