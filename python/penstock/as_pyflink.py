"""``import penstock.as_pyflink`` makes later ``import pyflink`` statements mean penstock.

It does the same as ``penstock run --as-pyflink``, for programs that this command does not start.
To leave the program unchanged, put the output of ``python -m penstock.as_pyflink`` first on the
module search path instead.
"""

from penstock.pyflink_alias import ALIAS_PATH, install

install()

if __name__ == "__main__":
    print(ALIAS_PATH)
