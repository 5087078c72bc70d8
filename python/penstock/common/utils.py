"""PyFlink's wrapper of Java objects, which penstock refuses by name."""

from typing import Any

from penstock.common.jvm import requires_jvm
from penstock.common.missing_methods import NoJavaMembers

__all__ = ["JavaObjectWrapper"]


class JavaObjectWrapper(NoJavaMembers):
    """Reject the call: there are no Java objects to wrap."""

    def __init__(self, j_object: Any) -> None:  # noqa: ARG002
        """Refuse.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm("JavaObjectWrapper", "write the class in Python")
