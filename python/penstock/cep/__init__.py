"""Complex event processing: patterns over streams, which PyFlink does not have."""

from penstock.cep.conditions import (
    ConditionContext,
    IterativeCondition,
    SimpleCondition,
    SubtypeCondition,
)
from penstock.cep.errors import MalformedPatternError, MalformedPatternException
from penstock.cep.functions import PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.cep.pattern import GroupPattern, Pattern
from penstock.cep.pattern_stream import CEP, PatternStream
from penstock.cep.quantifier import WithinType
from penstock.cep.skip_strategy import AfterMatchSkipStrategy, SkipStrategy

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "GroupPattern",
    "IterativeCondition",
    "MalformedPatternError",
    "MalformedPatternException",
    "Pattern",
    "PatternProcessFunction",
    "PatternStream",
    "SimpleCondition",
    "SkipStrategy",
    "SubtypeCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
