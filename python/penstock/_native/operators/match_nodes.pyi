from penstock.taskexecutor.compiled.match_nodes import *  # noqa: F403
