# Dates and times, decimals, UUIDs and numpy numbers, as values of undeclared type.

from libc.stdint cimport int64_t

from penstock._native.codecs.instances cimport ClassForm
from penstock._native.wire.wire cimport Reader, Writer


# Returns False and writes nothing if the value needs the general encoding.
cdef bint write_scalar(Writer *writer, ClassForm form, object value, int depth) except -1
# Returns the value whose tag was read; None, and reads nothing, for the general encoding.
cdef object read_scalar(Reader *reader, int tag)
cdef object read_uuid(Reader *reader)

# Microseconds of a datetime's wall clock since 1970, and the reverse conversion; None if the result
# is out of range.
cdef int64_t wall_micros(object value) noexcept
cdef object moment_of(int64_t micros, object zone, int fold)
