"""The largest batches of columns that a source may emit."""

from __future__ import annotations

from typing import Any, Final

from penstock.taskexecutor.compiled import (
    ChainingOutput,
    DiscardingSink,
    FusedOperator,
    TimestampsOperator,
)

#: Records of a batch if an operator of the chain processes them one by one.  It does not check the
#: clock in between: timers, mails and barriers wait until the batch is processed.
_FEW: Final = 1024

_MANY: Final = 1 << 20


def batch_rows(output: object) -> int:
    """Return the most records that a batch may have; 0 if records are emitted one by one.

    Args:
        output: The source's output, once the operators behind it are open.
    """
    if not isinstance(output, ChainingOutput):
        return _MANY if getattr(output, "batches", None) is not None else 0
    target: Any = output.target
    if isinstance(target, DiscardingSink) or getattr(target, "takes_batches", False):
        return _MANY
    if isinstance(target, (FusedOperator, TimestampsOperator)) and target.columns is not None:
        return batch_rows(target.output) or _FEW
    return 0
