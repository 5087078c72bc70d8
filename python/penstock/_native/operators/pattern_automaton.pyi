from penstock.taskexecutor.compiled.pattern_automaton import *  # noqa: F403
