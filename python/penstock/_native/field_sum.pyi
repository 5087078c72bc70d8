from penstock.taskexecutor.field_sum import *  # noqa: F403
