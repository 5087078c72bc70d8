"""The operator loop of the runtime in use: compiled for ``native``, plain Python for ``pure``.

Everything else imports the names of ``operator_loop`` from here, so that one process never mixes
the classes of both.
"""

from typing import TYPE_CHECKING

from penstock.network import runtime

if TYPE_CHECKING:
    from penstock.taskexecutor import operator_loop as implementation
elif runtime() == "native":
    from penstock._native import operator_loop as implementation
else:
    from penstock.taskexecutor import operator_loop as implementation

MIN_TIMESTAMP = implementation.MIN_TIMESTAMP
MAX_TIMESTAMP = implementation.MAX_TIMESTAMP

ChainingOutput = implementation.ChainingOutput
Input = implementation.Input
Output = implementation.Output
StreamOperator = implementation.StreamOperator
