"""Stateful stream processing with the semantics of Apache Flink and the API of PyFlink."""

import sys

__version__ = "1.0.0"
#: "penstock" on PyPI is another project: see :mod:`penstock.own_package`.
__distribution__ = "penstock-engine"

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "penstock needs CPython's global interpreter lock, which orders what threads see of its "
        "buffers and states: use an interpreter that is not free-threaded, or start this one "
        "with PYTHON_GIL=1"
    )
