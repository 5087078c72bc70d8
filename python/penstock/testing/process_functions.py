"""Harnesses for process functions, by the kind of function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.graph import operators
from penstock.testing.operator_harness import (
    KeyedOneInputStreamOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    TwoInputStreamOperatorTestHarness,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream.functions import (
        BroadcastProcessFunction,
        CoProcessFunction,
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        KeyedProcessFunction,
        ProcessFunction,
    )


class ProcessFunctionTestHarnesses:
    """Creates harnesses for users' functions."""

    @staticmethod
    def for_process_function(function: ProcessFunction) -> OneInputStreamOperatorTestHarness:
        """Create a harness for a function on a stream without keys."""
        return OneInputStreamOperatorTestHarness(operators.Process(function))

    @staticmethod
    def for_keyed_process_function(
        function: KeyedProcessFunction, key_selector: Callable[[Any], Any]
    ) -> KeyedOneInputStreamOperatorTestHarness:
        """Create a harness for a function on a keyed stream."""
        return KeyedOneInputStreamOperatorTestHarness(
            operators.KeyedProcess(function), key_selector
        )

    @staticmethod
    def for_co_process_function(function: CoProcessFunction) -> TwoInputStreamOperatorTestHarness:
        """Create a harness for a function of two streams without keys."""
        return TwoInputStreamOperatorTestHarness(operators.CoProcess(function))

    @staticmethod
    def for_keyed_co_process_function(
        function: KeyedCoProcessFunction,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
    ) -> KeyedTwoInputStreamOperatorTestHarness:
        """Create a harness for a function of two keyed streams."""
        return KeyedTwoInputStreamOperatorTestHarness(
            operators.KeyedCoProcess(function), key_selector1, key_selector2
        )

    @staticmethod
    def for_broadcast_process_function(
        function: BroadcastProcessFunction[Any, Any, Any],
    ) -> TwoInputStreamOperatorTestHarness:
        """Create a harness for a function beside a broadcast stream, the second input."""
        return TwoInputStreamOperatorTestHarness(operators.BroadcastProcess(function))

    @staticmethod
    def for_keyed_broadcast_process_function(
        function: KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        key_selector: Callable[[Any], Any],
    ) -> KeyedTwoInputStreamOperatorTestHarness:
        """Create a harness for a keyed function beside a broadcast stream, the second input."""
        return KeyedTwoInputStreamOperatorTestHarness(
            operators.KeyedBroadcastProcess(function), key_selector, None
        )
