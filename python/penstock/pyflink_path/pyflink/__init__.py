"""The name ``pyflink`` as an alias of penstock, for unmodified programs.

This folder's parent is on the module search path of workers, and of programs that are run as
PyFlink and their child processes; everything below ``pyflink`` is then found in penstock.
"""

from penstock.pyflink_alias import PYFLINK_VERSION as __version__
from penstock.pyflink_alias import install, submodule

__all__ = ["__version__"]

install()

# On a worker, a function that uses pyflink.common.Row finds only this module, without the
# submodules that the program imported.
__getattr__ = submodule
