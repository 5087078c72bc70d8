"""Records that are made, not read: of numbers, as fast as is asked for."""
