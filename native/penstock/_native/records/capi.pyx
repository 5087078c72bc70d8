"""The checked function table of the Rust extension, and its errors as exceptions."""

import importlib

from cpython.pycapsule cimport PyCapsule_GetPointer

from penstock.network.error_codes import exception_of


cdef const CApi *import_capi() except NULL:
    """Return the table of penstock._core.

    Raises:
        ImportError: the extensions were not built together.
    """
    # Not PyCapsule_Import: it imports only the top-level package and then walks attributes.
    core = importlib.import_module("penstock._core")
    cdef const CApi *api = <const CApi *>PyCapsule_GetPointer(core._C_API, "penstock._core._C_API")
    if api.abi_version != PS_CAPI_ABI_VERSION or api.struct_size < sizeof(CApi):
        raise ImportError(
            f"penstock._core exports C API {api.abi_version} ({api.struct_size} bytes); this "
            f"module needs {PS_CAPI_ABI_VERSION} ({sizeof(CApi)} bytes): build both again"
        )
    return api


cdef int raise_last_error(const CApi *api) except -1:
    """Raise the error of this thread's last call."""
    cdef uint8_t block[4096]
    cdef size_t size = min(api.last_error(block, sizeof(block)), sizeof(block))
    raise exception_of(block[0] << 8 | block[1], block[2:size].decode("utf-8", "replace"))
