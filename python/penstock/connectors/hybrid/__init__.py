"""A source that reads several others, one after the other."""
