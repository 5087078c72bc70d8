"""Kinds of known differences; docs/pyflink.md gives the reason for each.

A kind is what a case and its two outcomes say; the first one that fits counts.  A difference
without a kind is not accepted: mend it, or judge it here and there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Judgement = Callable[[str, str, str], bool]

_ARGUMENT_ERRORS = ("WrongArgumentError", "InvalidProgramError", "TypeError", "ConfigurationError")
_ERROR = re.compile(r"![A-Za-z0-9]+")
_WHOLE = r"Types\.(BYTE|SHORT|INT|LONG)\(\)"


def _fails(outcome: str, *errors: str) -> bool:
    return outcome.startswith("!") and any(error in outcome for error in errors)


def _case(pattern: str) -> Judgement:
    found = re.compile(pattern)
    return lambda case, _pyflink, _penstock: found.search(case) is not None


def _both_fail(_case: str, pyflink: str, penstock: str) -> bool:
    return pyflink.startswith("!") and penstock.startswith("!")


def _refused(case: str, pyflink: str, penstock: str) -> bool:
    answers = not pyflink.startswith("!")
    return " | " not in case and answers and _fails(penstock, *_ARGUMENT_ERRORS)


def _wrong_objects(case: str, pyflink: str, penstock: str) -> bool:
    wrong = re.search(r"assign_windows|merge_windows|StateTtlConfig", case) is not None
    return wrong and not pyflink.startswith("!") and _fails(penstock, "AttributeError")


def _errors_within(_case: str, pyflink: str, penstock: str) -> bool:
    return _ERROR.sub("!", pyflink) == _ERROR.sub("!", penstock)


def _own_names(_case: str, pyflink: str, _penstock: str) -> bool:
    return "<pyflink." in pyflink or "Wrapper>" in pyflink


def _more(case: str, pyflink: str, penstock: str) -> bool:
    return " | " not in case and pyflink.startswith("!") and not penstock.startswith("!")


CALLS: dict[str, Judgement] = {
    "the call is refused": _refused,
    "an object without what the call needs": _wrong_objects,
    "needs a JVM": lambda _case, _pyflink, penstock: _fails(penstock, "JvmOnlyError"),
    "another class of error": _both_fail,
    "penstock has more": _more,
    "a getter fails with another error": _errors_within,
    "an internal form": _case(r"(to|from)_internal_type"),
    "an object shows itself otherwise": _own_names,
    "an operator of PyFlink's own": _case(r"partition_custom|get_side_output"),
}
