"""Gauges of a process, of workers and of the driver."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable


def process_metrics(process: psutil.Process) -> dict[str, Callable[[], Any]]:
    """Return gauges of a process, under the names that Flink's tools expect.

    In place of a JVM's heap, they report the resident memory of the process.
    """
    began_s = time.monotonic()
    process.cpu_percent()  # the first call has no earlier value to compare with
    return {
        "Status.JVM.CPU.Load": lambda: process.cpu_percent() / 100 / (psutil.cpu_count() or 1),
        "Status.JVM.CPU.Time": lambda: round(sum(process.cpu_times()[:2]) * 1e9),
        "Status.JVM.Memory.Heap.Used": lambda: process.memory_info().rss,
        "Status.JVM.Memory.Heap.Committed": lambda: process.memory_info().rss,
        "Status.JVM.Memory.Heap.Max": lambda: psutil.virtual_memory().total,
        "Status.Machine.CpuCores": lambda: psutil.cpu_count() or 1,
        "Status.Machine.FreeMemory": lambda: psutil.virtual_memory().available,
        "Status.JVM.Threads.Count": process.num_threads,
        "Status.JVM.UptimeMs": lambda: round((time.monotonic() - began_s) * 1000),
    }
