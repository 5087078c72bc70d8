from penstock.taskexecutor.compiled.field_sum import *  # noqa: F403
