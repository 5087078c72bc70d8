"""The longest wait of a test for what must happen."""

#: Seconds.  A failed test waits this long and a passed one never does, so it is far above what a
#: busy machine needs, and below the limit of a test in `pyproject.toml`, whose message says less.
PATIENCE_S = 240
