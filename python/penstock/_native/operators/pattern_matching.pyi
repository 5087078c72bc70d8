from penstock.taskexecutor.compiled.pattern_matching import *  # noqa: F403
