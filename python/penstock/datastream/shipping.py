"""Copies user functions at the moment a program hands them over.

A function is pickled when its operator is added and the copy is what runs, so later changes to
what it captured are not seen, and a function that cannot travel fails in the call that added it.
"""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

from penstock.common.coroutines import refuse_coroutines
from penstock.errors import InvalidProgramError
from penstock.serialization.code_pickle import dumps

T = TypeVar("T")


def shipped(function: T, where: str) -> T:
    """The copy of a function (or of anything else that holds user code) that will run.

    Args:
        function: The user's argument.
        where: The call, for the message.

    Raises:
        InvalidProgramError: It cannot be pickled, or is written with ``async def``.
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
