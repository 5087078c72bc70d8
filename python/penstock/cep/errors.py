"""Errors of patterns."""

from penstock.errors import InvalidProgramError


class MalformedPatternError(InvalidProgramError):
    """A pattern contradicts itself: the message names the part and the rule."""


#: Flink's name.
MalformedPatternException = MalformedPatternError
