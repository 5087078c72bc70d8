from penstock.taskexecutor.compiled.timer_queue import *  # noqa: F403
