"""The one way in which penstock refuses what only a JVM could do."""

from typing import NoReturn

from penstock.errors import JvmOnlyError


def requires_jvm(what: str, instead: str) -> NoReturn:
    """Refuses a call that PyFlink forwards to Java.

    Args:
        what: The name as the user wrote it.
        instead: What to use in penstock, as a clause.

    Raises:
        JvmOnlyError: Always.
    """
    raise JvmOnlyError(f"{what} needs a JVM, and penstock has none: {instead}")
