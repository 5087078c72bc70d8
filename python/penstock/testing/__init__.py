"""Harnesses to test functions and operators without a cluster, in virtual time."""

from penstock.taskexecutor.state.snapshots.snapshot import (
    OperatorSnapshot,
    RunningSnapshot,
    redistribute,
)
from penstock.testing.operator_harness import (
    KeyedOneInputStreamOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
    MultipleInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    TwoInputStreamOperatorTestHarness,
)
from penstock.testing.patterns import PatternResult, feed_pattern
from penstock.testing.pipeline_harness import PipelineTestHarness
from penstock.testing.process_functions import ProcessFunctionTestHarnesses
from penstock.testing.test_output import CollectedRecord, TestOutput

__all__ = [
    "CollectedRecord",
    "KeyedOneInputStreamOperatorTestHarness",
    "KeyedTwoInputStreamOperatorTestHarness",
    "MultipleInputStreamOperatorTestHarness",
    "OneInputStreamOperatorTestHarness",
    "OperatorSnapshot",
    "PatternResult",
    "PipelineTestHarness",
    "ProcessFunctionTestHarnesses",
    "RunningSnapshot",
    "TestOutput",
    "TwoInputStreamOperatorTestHarness",
    "feed_pattern",
    "redistribute",
]
