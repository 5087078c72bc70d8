r"""Regular expressions that Arrow's library matches as Python's does.

Arrow uses RE2.  It and Python agree on literals, sets, ``.``, ``^``, alternatives, groups, and
quantifiers of single characters; other parts, such as ``$``, ``\d`` and quantified groups, may
match other texts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: The name of the extracted group.
GROUP: Final = "found"

_TOKEN: Final = re.compile(
    r"(?P<set>\[\^?(?:\\[!-/:-@\[-^`{-~]|(?!&&|--|~~|\|\|)[^\[\]\\])+\])"
    r"|(?P<atom>\\[!-/:-@\[-^`{-~]|\.|[^\\\[\](){}|^$.*+?])"
    r"|(?P<quantifier>[*+?]\??)"
    r"|(?P<other>\((?!\?)|[)|^])",
)


@lru_cache(maxsize=256)
def re2_pattern(pattern: str, group: int) -> str | None:
    """Return a pattern of RE2 whose only group, `GROUP`, is a group of a pattern of Python.

    Args:
        pattern: The pattern.
        group: The number of the group; 0 is the whole match.

    Returns:
        None if both might match or extract different texts.
    """
    parts: list[str] = []
    #: The numbers of the open groups; 0 is the whole pattern.
    opened = [0]
    #: Those with alternatives, and those around the extracted one.
    divided: set[int] = set()
    around: set[int] = set()
    position = groups = 0
    is_quantifiable = False
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return None
        position = token.end()
        text = token[0]
        if token.lastgroup == "quantifier" and not is_quantifiable:
            return None
        is_quantifiable = token.lastgroup in ("set", "atom")
        if text == "(":
            groups += 1
            if groups == group:
                around = set(opened)
            opened.append(groups)
            text = f"(?P<{GROUP}>" if groups == group else "(?:"
        elif text == ")":
            if len(opened) == 1:
                return None
            opened.pop()
        elif text == "|":
            divided.add(opened[-1])
        parts.append(text)
    # In one of several alternatives, the group might have no part in a match.
    if len(opened) > 1 or not 0 <= group <= groups or divided & around:
        return None
    try:
        re.compile(pattern)
    except re.error:  # such as a range of which the end comes first
        return None
    found = "".join(parts)
    return found if group else f"(?P<{GROUP}>{found})"
