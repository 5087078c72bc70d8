from penstock.taskexecutor.compiled.untracked import *  # noqa: F403
