"""The version of PyFlink whose API penstock has."""

from penstock.pyflink_alias import PYFLINK_VERSION as __version__

__all__ = ["__version__"]
