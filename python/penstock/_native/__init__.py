"""The compiled data path: codecs, record writer, input processor and operator loop.

Built from ``native/penstock/_native`` (``make cython``).  Import through the facades of
``penstock.network`` and ``penstock.taskexecutor.compiled``, which pick the runtime.
"""
