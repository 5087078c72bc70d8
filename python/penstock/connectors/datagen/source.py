"""DataGeneratorSource: records that a function computes from numbers (beyond PyFlink)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import TypeInformation
from penstock.connectors.base import Source
from penstock.datastream.functions.function import Function, check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BatchGeneratorSource",
    "DataGeneratorSource",
    "GeneratorFunction",
    "RateLimiterStrategy",
]


class GeneratorFunction(Function):
    """Function that computes a record from a number."""

    @abstractmethod
    def map(self, value: int) -> Any:
        """Return the record for a number; the first number is 0."""


@dataclass(frozen=True)
class RateLimiterStrategy:
    """Rate limit of a source; created by the static methods.

    Attributes:
        records_per_second: The rate of all subtasks together, or None.
        records_per_checkpoint: The records of all subtasks between two checkpoints, or None.
    """

    records_per_second: float | None = None
    records_per_checkpoint: int | None = None

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Limit the rate; after a pause, the source catches up for at most a second.

        Args:
            records_per_second: The rate of all subtasks together; each has an equal share.

        Raises:
            InvalidProgramError: The argument is not a positive number.
        """
        given: Any = records_per_second
        is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not is_number or not 0 < given < math.inf:
            raise InvalidProgramError(f"per_second takes a positive number, got {given!r}")
        return RateLimiterStrategy(records_per_second=float(given))

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """Limit the records between two complete checkpoints.

        Args:
            records_per_checkpoint: The number for all subtasks together, at least one for each.

        Raises:
            InvalidProgramError: The argument is not a positive whole number.
        """
        given: Any = records_per_checkpoint
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise InvalidProgramError(
                f"per_checkpoint takes a positive whole number, got {given!r}"
            )
        return RateLimiterStrategy(records_per_checkpoint=given)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Do not limit the rate; the default."""
        return RateLimiterStrategy()


class DataGeneratorSource(Source):
    """Source that maps the numbers from 0 to ``count - 1``, divided among the subtasks.

    A checkpoint stores the remaining numbers, so a restored job emits each record once, at
    any parallelism.  A function that only computes is evaluated without a call.
    """

    def __init__(
        self,
        generator_function: GeneratorFunction | Callable[[int], Any],
        count: int,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        """Create a source.

        Args:
            generator_function: A function that returns the record of a number.
            count: The number of records; ``sys.maxsize`` for a source that is stopped externally.
            rate_limiter_strategy: The limit of the rate; by default none.
            type_info: The type of the records; by default any Python value.

        Raises:
            InvalidProgramError: An argument has the wrong type, the count is negative, or the
                function cannot be sent to the workers.
        """
        super().__init__(None)
        where = "DataGeneratorSource"
        check_function(generator_function, GeneratorFunction, where, or_callable=True)
        number: Any = count
        if not isinstance(number, int) or isinstance(number, bool):
            raise WrongArgumentError(f"{where} takes a whole number of records, got {number!r}")
        if count < 0:
            raise InvalidProgramError(f"{where} cannot generate {count} records")
        strategy: Any = rate_limiter_strategy
        if not isinstance(strategy, RateLimiterStrategy | None):
            raise WrongArgumentError(
                f"the third argument of {where} is a RateLimiterStrategy, got {strategy!r}"
            )
        declared: Any = type_info
        if not isinstance(declared, TypeInformation | None):
            raise WrongArgumentError(
                f"the fourth argument of {where} is a type, as Types.LONG(), got {declared!r}"
            )
        self._function = shipped(generator_function, where)
        self._count = count
        self._rate = strategy or RateLimiterStrategy.no_op()
        self._type = type_info

    def source_operator(self) -> operators.DataGeneratorSource:
        """Return the descriptor of the operator."""
        return operators.DataGeneratorSource(
            function=self._function,
            count=self._count,
            records_per_second=self._rate.records_per_second,
            records_per_checkpoint=self._rate.records_per_checkpoint,
        )

    def get_produced_type(self) -> TypeInformation | None:
        """Return the declared type."""
        return self._type


class BatchGeneratorSource(DataGeneratorSource):
    """Source of batches, which a function creates from the ranges of their records' numbers.

    The count, the rate and a checkpoint's position are in records, so a restored job may have
    another rate and another size of batches.
    """

    def __init__(
        self,
        generator_function: Callable[[range], Any],
        count: int,
        batch_size: int,
        records_per_second: float,
        type_info: TypeInformation | None,
    ) -> None:
        """Create a source.

        Args:
            generator_function: A function that returns the batch of consecutive numbers.
            count: The number of records.
            batch_size: The maximum number of records of a batch.
            records_per_second: The rate of all subtasks together.
            type_info: The type of the batches; None for any Python value.

        Raises:
            InvalidProgramError: The function cannot be sent to the workers.
        """
        function: Any = generator_function
        rate = RateLimiterStrategy.per_second(records_per_second)
        super().__init__(function, count, rate, type_info)
        self._batch_size = batch_size

    def source_operator(self) -> operators.DataGeneratorSource:
        """Return the descriptor of the operator."""
        return replace(super().source_operator(), batch_size=self._batch_size)
