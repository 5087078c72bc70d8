"""The JSON of a cluster: overview, options, workers, the driver's process."""

from __future__ import annotations

import platform
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__
from penstock.common.options import cluster, network, rest
from penstock.common.options.rest import is_sensitive
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.metrics.values import NO_VALUES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.jobmaster.snapshots import AttemptSnapshot, WorkerSnapshot
    from penstock.metrics.values import GaugeValue
    from penstock.rest.call import Call, Json

FLINK_VERSION: Final = "2.3.0"
"""The version of Flink whose interface this is; tools ask for it."""

HIDDEN: Final = "******"


def overview(call: Call) -> Json:
    """Return the numbers of TaskExecutors, slots and jobs of the cluster.

    ``flink-version`` is the version of Flink's API; ``flink-commit`` names penstock's version.
    """
    jobs = [job.status for job in call.cluster.jobs]
    return {
        "taskmanagers": len(call.cluster.workers),
        "slots-total": sum(worker.slots for worker in call.cluster.workers),
        "slots-available": sum(worker.free_slots for worker in call.cluster.workers),
        "jobs-running": sum(not status.is_globally_terminal for status in jobs),
        "jobs-finished": jobs.count(JobStatus.FINISHED),
        "jobs-cancelled": jobs.count(JobStatus.CANCELED),
        "jobs-failed": jobs.count(JobStatus.FAILED),
        "flink-version": FLINK_VERSION,
        "flink-commit": f"penstock {__version__}",
    }


def config(call: Call) -> Json:
    """Return the settings of the interface and the actions that it permits.

    ``refresh-interval`` and ``timezone-offset`` are in ms.
    """
    configuration = call.gateway.configuration
    may_change = not rest.READ_ONLY.read(configuration)
    return interface(
        rest.REFRESH_INTERVAL.read(configuration),
        can_cancel=may_change and rest.CANCEL_ON_PAGE.read(configuration),
        can_rescale=may_change and rest.RESCALE_ON_PAGE.read(configuration),
        is_history=False,
    )


def interface(
    interval_ms: int, *, can_cancel: bool, can_rescale: bool, is_history: bool
) -> dict[str, Any]:
    """Return the description of an interface, of a cluster or of a history server."""
    return {
        "refresh-interval": interval_ms,
        "timezone-name": time.tzname[time.localtime().tm_isdst > 0],
        "timezone-offset": time.localtime().tm_gmtoff * 1000,
        "flink-version": FLINK_VERSION,
        "flink-revision": f"penstock {__version__}",
        "features": {
            "web-submit": False,
            "web-cancel": can_cancel,
            "web-rescale": can_rescale,
            "web-history": is_history,
        },
    }


def shown_options(configuration: dict[str, str]) -> Json:
    """Return keys and values; values of secret options are hidden."""
    return [
        {"key": key, "value": HIDDEN if is_sensitive(key) else value}
        for key, value in sorted(configuration.items())
    ]


def driver_config(call: Call) -> Json:
    """Return the options of the cluster, as keys and values; secret values are hidden."""
    return shown_options(call.gateway.configuration)


def environment(call: Call) -> Json:  # noqa: ARG001
    """Return the driver's Python: version, machine, ``-X`` options and module search path.

    The fields are those in which Flink describes its JVM.
    """
    return {
        "jvm": {
            "version": f"{platform.python_implementation()} {sys.version}",
            "arch": platform.machine(),
            "options": [f"-X{key}" for key in sys._xoptions],
        },
        "classpath": list(sys.path),
    }


def workers(call: Call) -> Json:
    """Return all TaskExecutors, with their addresses, slots and memory.

    ``hardware`` and ``memoryConfiguration`` are in bytes, resources of slots in MiB; figures of a
    JVM are 0.  ``cpuLoad`` is the process's share of the machine's cores, ``memoryUsed`` its
    resident memory.  ``lost`` names former TaskExecutors whose logs can still be read.
    """
    metrics = call.gateway.metrics.workers()
    registered = {found.executor_id for found in call.cluster.workers}
    listed = []
    for found in call.cluster.workers:
        values = metrics.get(found.executor_id, NO_VALUES).flat()
        listed.append(
            {
                **_worker(found, values, call),
                "cpuLoad": values.get("Status.JVM.CPU.Load", 0),
                "memoryUsed": values.get("Status.JVM.Memory.Heap.Used", 0),
            }
        )
    lost = [name for name in call.gateway.logs.workers() if name not in registered]
    return {"taskmanagers": listed, "lost": lost}


def worker(call: Call) -> Json:
    """Return one TaskExecutor, with its allocated slots and its memory in bytes."""
    found = call.worker()
    values = call.gateway.metrics.workers().get(found.executor_id, NO_VALUES).flat()
    running = _running(call)

    def value(name: str) -> GaugeValue:
        return values.get(f"Status.{name}", 0)

    return {
        **_worker(found, values, call),
        "allocatedSlots": [
            {
                "jobId": job_id.hex(),
                "resource": _resource(1, _network_bytes(values, call), call),
                "assignedTasks": sum(one.allocation_id == slot for one in running),
            }
            for slot, job_id in found.allocations
        ],
        "metrics": {
            "heapUsed": value("JVM.Memory.Heap.Used"),
            "heapCommitted": value("JVM.Memory.Heap.Committed"),
            "heapMax": value("JVM.Memory.Heap.Max"),
            **dict.fromkeys(("nonHeapUsed", "nonHeapCommitted", "nonHeapMax"), 0),
            **dict.fromkeys(("directCount", "directUsed", "directMax"), 0),
            **dict.fromkeys(("mappedCount", "mappedUsed", "mappedMax"), 0),
            "nettyShuffleMemorySegmentsAvailable": value("Shuffle.Netty.AvailableMemorySegments"),
            "nettyShuffleMemorySegmentsUsed": value("Shuffle.Netty.UsedMemorySegments"),
            "nettyShuffleMemorySegmentsTotal": value("Shuffle.Netty.TotalMemorySegments"),
            "nettyShuffleMemoryAvailable": value("Shuffle.Netty.AvailableMemory"),
            "nettyShuffleMemoryUsed": value("Shuffle.Netty.UsedMemory"),
            "nettyShuffleMemoryTotal": value("Shuffle.Netty.TotalMemory"),
            "garbageCollectors": [],
        },
    }


def _running(call: Call) -> list[AttemptSnapshot]:
    return [
        subtask.current
        for job in call.cluster.jobs
        for vertex in job.vertices
        for subtask in vertex.subtasks
        if not subtask.current.state.is_terminal
    ]


def _worker(found: WorkerSnapshot, values: Mapping[str, GaugeValue], call: Call) -> dict[str, Any]:
    shuffle = _network_bytes(values, call)
    managed = cluster.MANAGED_MEMORY.read(call.gateway.configuration)
    host, data_port = found.address
    return {
        "id": found.executor_id,
        "path": f"tcp://{host}:{data_port}/{found.executor_id}",
        "dataPort": data_port,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": found.last_heard_ms,
        "slotsNumber": found.slots,
        "freeSlots": found.free_slots,
        "assignedTasks": sum(one.executor_id == found.executor_id for one in _running(call)),
        "totalResource": _resource(found.slots, shuffle, call),
        "freeResource": _resource(found.free_slots, shuffle, call),
        "hardware": {
            "cpuCores": values.get("Status.Machine.CpuCores", 0),
            "physicalMemory": values.get("Status.JVM.Memory.Heap.Max", 0),
            "freeMemory": values.get("Status.Machine.FreeMemory", 0),
            "managedMemory": managed,
        },
        "memoryConfiguration": {
            **dict.fromkeys(("frameworkHeap", "taskHeap", "frameworkOffHeap", "taskOffHeap"), 0),
            "networkMemory": shuffle,
            "managedMemory": managed,
            **dict.fromkeys(("jvmMetaspace", "jvmOverhead"), 0),
            "totalFlinkMemory": shuffle,
            "totalProcessMemory": shuffle,
        },
    }


def _resource(slots: int, network_bytes: int, call: Call) -> dict[str, Any]:
    """Return the resources of slots; memory in MiB, as in Flink.  Heaps have no limits."""
    per_worker = max(1, call.gateway.settings.slots_per_executor or 1)
    return {
        "cpuCores": float(slots),
        "taskHeapMemory": 0,
        "taskOffHeapMemory": 0,
        "managedMemory": cluster.MANAGED_MEMORY.read(call.gateway.configuration)
        * slots
        // per_worker
        >> 20,
        "networkMemory": network_bytes * slots // per_worker >> 20,
        "extendedResources": {},
    }


def _network_bytes(values: Mapping[str, GaugeValue], call: Call) -> int:
    """Return the size of a TaskExecutor's network buffers; before it reports any, the least."""
    configuration = call.gateway.configuration
    segments = network.SEGMENTS.read(configuration) or network.LEAST_COMPUTED_SEGMENTS
    reported = values.get("Status.Shuffle.Netty.TotalMemory")
    return int(reported or segments * network.SEGMENT_SIZE.read(configuration))
