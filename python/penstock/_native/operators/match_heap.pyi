from penstock.taskexecutor.compiled.match_heap import *  # noqa: F403
