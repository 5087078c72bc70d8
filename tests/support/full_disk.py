"""A full disk, simulated for the files of this process."""

import resource
from contextlib import contextmanager


@contextmanager
def disk_for(size_bytes):
    """Limit the size of files, as a full disk does; only the error code differs (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
