from penstock.taskexecutor.state.map_iterators import *  # noqa: F403
