# The state of pydantic models besides their fields; see penstock.serialization.models.

from penstock._native.codecs.instances cimport ClassForm
from penstock._native.codecs.plain_instances cimport Parts
from penstock._native.wire.wire cimport Reader, Writer


# Sets the offsets of a model's instances in its form.
cdef int find_slots(ClassForm form) except -1

# Returns False if the value needs another form, or its attributes do not stand alone.
cdef bint write_rest(
    Writer *writer, ClassForm form, object value, Parts *met, int depth
) except -1
cdef bint rest_stands_alone(ClassForm form, object value, Parts *met) except -1
cdef int read_rest(Reader *reader, ClassForm form, object made) except -1
