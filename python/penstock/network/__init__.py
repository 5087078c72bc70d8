"""Records between processes through memory segments: the data plane, as a library.

`from penstock.network import X` returns the native class, `from penstock.network.pure import X` the
same one in plain Python, with the same members, signatures, exceptions and results.  The plain
classes declare all of these, and have the docstrings.  With ``PENSTOCK_RUNTIME=pure`` this package
returns them, too.

The classes are looked up on first access, so importing this package starts and loads nothing::

    from penstock.network import NetworkEnvironment

    environment = NetworkEnvironment(executor_id="worker-1", token=token)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.network import pure
from penstock.runtime import load as load
from penstock.runtime import runtime as runtime

if TYPE_CHECKING:
    from penstock.network.pure import *  # noqa: F403

__all__ = pure.__all__


def __getattr__(name: str) -> Any:
    # Not stored: a test may switch the runtime between two look-ups.
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(name)
