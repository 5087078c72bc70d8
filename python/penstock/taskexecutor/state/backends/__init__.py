"""The backends of keyed and of operator state, and the choice of one."""
