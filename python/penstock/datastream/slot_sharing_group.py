"""SlotSharingGroup and MemorySize: which operators share slots, and what a slot needs."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any, NoReturn

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.errors import ConfigurationError, InvalidProgramError

__all__ = [
    "MemorySize",
    "SlotSharingGroup",
]

_UNITS = ("bytes", "kb", "mb", "gb", "tb")
_FACTORS = {
    "": 1, "b": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gibibytes": 1 << 30,
    "t": 1 << 40, "tb": 1 << 40, "tebibytes": 1 << 40,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)


@total_ordering
@checks_arguments
class MemorySize(NoJavaMembers):
    """An amount of memory in bytes."""

    def __init__(self, j_memory_size: None = None, bytes_size: int | None = None) -> None:
        """Create an amount.

        Args:
            j_memory_size: Exists only for PyFlink's signature; must be None.
            bytes_size: The number of bytes.

        Raises:
            InvalidProgramError: The number of bytes is missing or negative.
        """
        if j_memory_size is not None:
            requires_jvm("MemorySize(j_memory_size)", "use MemorySize(bytes_size=…)")
        if bytes_size is None or bytes_size < 0:
            raise InvalidProgramError(f"a MemorySize needs bytes_size >= 0, got {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return an amount of `mebi_bytes` MiB."""
        return MemorySize(bytes_size=mebi_bytes << 20)

    @staticmethod
    def parse(text: str) -> MemorySize:
        """Parse the form of configuration values, such as "64 mb"; bytes if no unit is given.

        Raises:
            ConfigurationError: The text is not a number with a known unit.
        """
        match = _SIZE.fullmatch(text)
        factor = _FACTORS.get(match.group(2).lower()) if match else None
        if match is None or factor is None:
            raise ConfigurationError(
                f"{text!r} is not a memory size: write a number and a unit: b, kb, mb, gb or tb"
            )
        return MemorySize(bytes_size=int(match.group(1)) * factor)

    def get_bytes(self) -> int:
        """Return the amount in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return the amount in whole KiB."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """Return the amount in whole MiB."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """Return the amount in whole GiB."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """Return the amount in whole TiB."""
        return self._bytes >> 40

    def get_java_memory_size(self) -> NoReturn:
        """Reject the call: there is no Java object."""
        requires_jvm("MemorySize.get_java_memory_size", "use get_bytes()")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, MemorySize):
            return NotImplemented
        return self._bytes < other._bytes

    def __le__(self, other: Any) -> bool:
        if not isinstance(other, MemorySize):
            return NotImplemented
        return self._bytes <= other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        amount, unit = self._bytes, 0
        while amount and amount % 1024 == 0 and unit < len(_UNITS) - 1:
            amount //= 1024
            unit += 1
        return f"{amount} {_UNITS[unit]}"

    def __repr__(self) -> str:
        return f"MemorySize({self})"


@checks_arguments
class SlotSharingGroup(NoJavaMembers):
    """A group of operators whose subtasks share slots.

    Resources of such a slot can be set and read back, but a job with them is rejected, because
    the slots of a TaskExecutor share its resources.
    """

    def __init__(
        self,
        name: str,
        *,
        cpu_cores: float | None = None,
        task_heap_memory: MemorySize | None = None,
        task_off_heap_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        external_resources: dict[str, float] | None = None,
    ) -> None:
        """Create a group; `builder` is easier to read."""
        self._name = name
        self._cpu_cores = cpu_cores
        self._task_heap_memory = task_heap_memory
        self._task_off_heap_memory = task_off_heap_memory
        self._managed_memory = managed_memory
        self._external_resources = dict(external_resources or {})

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Create a builder of a group with a name."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """Return the number of cores, or None if unspecified."""
        return self._cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the memory of Python objects, or None if unspecified."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the memory outside of Python objects, or None if unspecified."""
        return self._task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Return the memory of state backends, or None if unspecified."""
        return self._managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Return the amounts of other resources, by name."""
        return dict(self._external_resources)

    def check_without_resources(self) -> None:
        """Check that the group specifies no resources (beyond PyFlink).

        Raises:
            InvalidProgramError: Resources were specified, which slots do not have of their own.
        """
        asked = [] if self._cpu_cores is None else [f"{self._cpu_cores:g} cores"]
        for what, size in (
            ("heap", self._task_heap_memory),
            ("off-heap", self._task_off_heap_memory),
            ("managed", self._managed_memory),
        ):
            if size is not None and size.get_bytes():
                asked.append(f"{size} of {what} memory")
        asked += [f"{amount:g} {name}" for name, amount in self._external_resources.items()]
        if not asked:
            return
        raise InvalidProgramError(
            f"slot sharing group {self._name!r} asks for {', '.join(asked)}, but the slots of a "
            "TaskExecutor share its resources: leave them out and size the TaskExecutors instead; "
            "on Spark set spark.task.cpus, spark.executor.memoryOverhead or "
            "spark.task.resource.gpu.amount"
        )

    def get_java_slot_sharing_group(self) -> NoReturn:
        """Reject the call: there is no Java object."""
        requires_jvm("SlotSharingGroup.get_java_slot_sharing_group", "use the group itself")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"SlotSharingGroup({self._name!r})"

    @checks_arguments
    class Builder(NoJavaMembers):
        """Collects the resources of a group."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the number of cores.

            Raises:
                InvalidProgramError: The argument is not positive.
            """
            if cpu_cores <= 0:
                raise InvalidProgramError(f"cpu_cores must be positive, got {cpu_cores}")
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of Python objects."""
            if task_heap_memory.get_bytes() == 0:
                raise InvalidProgramError("task_heap_memory must be positive")
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of Python objects in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(
            self, task_off_heap_memory: MemorySize
        ) -> SlotSharingGroup.Builder:
            """Set the memory outside of Python objects."""
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(
            self, task_off_heap_memory_mb: int
        ) -> SlotSharingGroup.Builder:
            """Set the memory outside of Python objects in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of state backends."""
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of state backends in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set the amount of another resource."""
            self._external_resources[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group.

            Raises:
                InvalidProgramError: Memory or other resources are specified without cores and
                    heap memory, or the other way round.
            """
            if self._cpu_cores is None and self._task_heap_memory is None:
                if (
                    self._task_off_heap_memory is None
                    and self._managed_memory is None
                    and not self._external_resources
                ):
                    return SlotSharingGroup(self._name)
            elif self._cpu_cores is not None and self._task_heap_memory is not None:
                zero = MemorySize(bytes_size=0)
                return SlotSharingGroup(
                    self._name,
                    cpu_cores=self._cpu_cores,
                    task_heap_memory=self._task_heap_memory,
                    task_off_heap_memory=self._task_off_heap_memory or zero,
                    managed_memory=self._managed_memory or zero,
                    external_resources=self._external_resources,
                )
            raise InvalidProgramError(
                f"slot sharing group {self._name!r}: resources need both cpu_cores and "
                "task_heap_memory"
            )
