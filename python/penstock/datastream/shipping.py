"""Copying of user functions when a program passes them.

A function is pickled when its operator is added, and the copy is what runs.  Later changes to
captured values therefore have no effect, and a function that cannot be pickled fails in the call
that added it.
"""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

from penstock.common.calls.coroutines import refuse_coroutines
from penstock.errors import InvalidProgramError
from penstock.serialization.code_pickle import dumps

T = TypeVar("T")


def shipped(function: T, where: str) -> T:
    """Return the copy of a function, or of another object with user code, that will run.

    Args:
        function: The user's argument.
        where: The name of the call, for the message.

    Raises:
        InvalidProgramError: The function cannot be pickled, or is written with ``async def``.
    """
    refuse_coroutines(function, where)
    try:
        copy: Any = pickle.loads(dumps(function))
    except Exception as error:
        raise InvalidProgramError(
            f"{where}: {function!r} cannot be sent to the workers because it cannot be pickled "
            f"({type(error).__name__}: {error}); create what it captures in open() instead"
        ) from error
    result: T = copy
    return result
