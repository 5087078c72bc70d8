from penstock.taskexecutor.compiled.session_heap import *  # noqa: F403
