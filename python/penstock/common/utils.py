"""PyFlink's wrapper of Java objects, which penstock rejects by name."""

from typing import Any

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers

__all__ = ["JavaObjectWrapper"]


class JavaObjectWrapper(NoJavaMembers):
    """Raises an error on creation: there are no Java objects to wrap."""

    def __init__(self, j_object: Any) -> None:  # noqa: ARG002
        """Reject the call.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm("JavaObjectWrapper", "write the class in Python")
