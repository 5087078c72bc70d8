"""The name ``pyflink``, where it means penstock: for programs that must stay unmodified.

This folder's parent is on the module search path of workers, and of programs that are run as
PyFlink, and of what they start; everything below ``pyflink`` is then found in penstock.
"""

from penstock.pyflink_alias import PYFLINK_VERSION as __version__
from penstock.pyflink_alias import install, submodule

__all__ = ["__version__"]

install()

# A function that says pyflink.common.Row has this module alone on a worker, without what the
# program imported below it.
__getattr__ = submodule
