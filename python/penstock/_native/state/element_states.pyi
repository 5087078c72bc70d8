from penstock.taskexecutor.rocksdb.element_states import *  # noqa: F403
