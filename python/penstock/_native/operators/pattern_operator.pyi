from penstock.taskexecutor.compiled.pattern_operator import *  # noqa: F403
