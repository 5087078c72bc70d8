from penstock.taskexecutor.compiled.source_operators import *  # noqa: F403
