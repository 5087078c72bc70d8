"""Windows: assigners, triggers, evictors and the windows themselves."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.common.constants import (
        MAX_LONG_VALUE,
        MIN_LONG_VALUE,
    )
    from penstock.datastream.window.assigners import (
        CountSlidingWindowAssigner,
        CountTumblingWindowAssigner,
        GlobalWindows,
        MergingWindowAssigner,
        MissingTimestampError,
        SlidingEventTimeWindows,
        SlidingProcessingTimeWindows,
        TumblingEventTimeWindows,
        TumblingProcessingTimeWindows,
        WindowAssigner,
    )
    from penstock.datastream.window.continuous_triggers import (
        ContinuousEventTimeTrigger,
        ContinuousProcessingTimeTrigger,
        Min,
    )
    from penstock.datastream.window.delta_trigger import DeltaTrigger
    from penstock.datastream.window.evictors import (
        CountEvictor,
        DeltaEvictor,
        Evictor,
        TimeEvictor,
    )
    from penstock.datastream.window.operation_descriptor import (
        WindowOperationDescriptor,
    )
    from penstock.datastream.window.sessions import (
        DynamicEventTimeSessionWindows,
        DynamicProcessingTimeSessionWindows,
        EventTimeSessionWindows,
        ProcessingTimeSessionWindows,
        SessionWindowTimeGapExtractor,
    )
    from penstock.datastream.window.stagger import WindowStagger
    from penstock.datastream.window.triggers import (
        CountTrigger,
        EndOfStreamTrigger,
        EventTimeTrigger,
        NeverTrigger,
        ProcessingTimeTrigger,
        PurgingTrigger,
        Trigger,
        TriggerResult,
    )
    from penstock.datastream.window.windows import (
        CountWindow,
        CountWindowSerializer,
        GlobalWindow,
        GlobalWindowSerializer,
        TimeWindow,
        TimeWindowSerializer,
        Window,
        long_to_int_with_bit_mixing,
        mod_inverse,
    )

__all__ = [
    "MAX_LONG_VALUE",
    "MIN_LONG_VALUE",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "MissingTimestampError",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowOperationDescriptor",
    "WindowStagger",
    "long_to_int_with_bit_mixing",
    "mod_inverse",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "MAX_LONG_VALUE": "penstock.common.constants",
        "MIN_LONG_VALUE": "penstock.common.constants",
        "CountSlidingWindowAssigner": "assigners",
        "CountTumblingWindowAssigner": "assigners",
        "GlobalWindows": "assigners",
        "MergingWindowAssigner": "assigners",
        "MissingTimestampError": "assigners",
        "SlidingEventTimeWindows": "assigners",
        "SlidingProcessingTimeWindows": "assigners",
        "TumblingEventTimeWindows": "assigners",
        "TumblingProcessingTimeWindows": "assigners",
        "WindowAssigner": "assigners",
        "CountEvictor": "evictors",
        "DeltaEvictor": "evictors",
        "Evictor": "evictors",
        "TimeEvictor": "evictors",
        "WindowOperationDescriptor": "operation_descriptor",
        "DynamicEventTimeSessionWindows": "sessions",
        "DynamicProcessingTimeSessionWindows": "sessions",
        "EventTimeSessionWindows": "sessions",
        "ProcessingTimeSessionWindows": "sessions",
        "SessionWindowTimeGapExtractor": "sessions",
        "ContinuousEventTimeTrigger": "continuous_triggers",
        "ContinuousProcessingTimeTrigger": "continuous_triggers",
        "CountTrigger": "triggers",
        "DeltaTrigger": "delta_trigger",
        "EndOfStreamTrigger": "triggers",
        "WindowStagger": "stagger",
        "EventTimeTrigger": "triggers",
        "Min": "continuous_triggers",
        "NeverTrigger": "triggers",
        "ProcessingTimeTrigger": "triggers",
        "PurgingTrigger": "triggers",
        "Trigger": "triggers",
        "TriggerResult": "triggers",
        "CountWindow": "windows",
        "CountWindowSerializer": "windows",
        "GlobalWindow": "windows",
        "GlobalWindowSerializer": "windows",
        "TimeWindow": "windows",
        "TimeWindowSerializer": "windows",
        "Window": "windows",
        "long_to_int_with_bit_mixing": "windows",
        "mod_inverse": "windows",
    },
)
