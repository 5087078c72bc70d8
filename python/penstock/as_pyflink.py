"""``import penstock.as_pyflink`` makes ``import pyflink`` mean penstock, from there on.

The same as ``penstock run --as-pyflink``, for programs that are not started by that command.
Without a line in the program, a module search path that begins with what
``python -m penstock.as_pyflink`` prints does it.
"""

from penstock.pyflink_alias import ALIAS_PATH, install

install()

if __name__ == "__main__":
    print(ALIAS_PATH)
