"""Dates and times, decimals, UUIDs and numpy numbers, as values of undeclared type.

They are encoded as in ``penstock.serialization.extended_values``, which also handles the rare cases
(time zones, long texts, unusual dtypes).
"""

import datetime
import decimal
import sys
import uuid

from cpython.datetime cimport (
    date_day, date_month, date_new, date_year, datetime_day, datetime_fold, datetime_hour,
    datetime_microsecond, datetime_minute, datetime_month, datetime_new, datetime_second,
    datetime_tzinfo, datetime_year, import_datetime, timedelta_days, timedelta_microseconds,
    timedelta_new, timedelta_seconds,
)
from cpython.dict cimport PyDict_GetItem
from cpython.long cimport PyLong_AsUnsignedLongLongMask
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from penstock._native.codecs.dynamic_codec cimport decode_dynamic, encode_dynamic, write_number
from penstock._native.codecs.instances cimport DATE, DATETIME, DECIMAL, NUMPY, ROW, TIMEDELTA, UUID
from penstock._native.values.row cimport RowBase, make_row
from penstock._native.wire.limits cimport MAX_DEPTH, MAX_VARINT_BYTES
from penstock._native.wire.wire cimport (
    get16, get32, get64, get8, left, need, ps_double_bits, put64, put8,
    put_varint, read_text, reserve,
)

from penstock.common.types import Row, RowKind
from penstock.serialization.loaded_numpy import loaded_numpy

cdef extern from "Python.h":
    object _PyLong_FromByteArray(const uint8_t *data, size_t size, int little, int signed)
    int PyObject_GenericSetAttr(object value, object name, object attribute) except -1
    object PyObject_Str(object value)
    double PyFloat_AsDouble(object value) except? -1
    object PyNumber_Index(object value)

cdef extern from *:
    """
    static inline PyObject *ps_allocated(PyTypeObject *cls) {
        return cls->tp_alloc(cls, 0);
    }
    """
    object ps_allocated(PyTypeObject *cls)

cdef extern from "values/civil.h":
    enum:
        PS_FIRST_DAY, PS_LAST_DAY
    int64_t PS_DAY_MICROS
    int32_t ps_day_of(int32_t year, int32_t month, int32_t day) noexcept
    void ps_date_of(int32_t day, int *year, int *month, int *day_of_month) noexcept

cdef extern from "values/twins.h":
    ctypedef struct PsTwins:
        pass
    PyObject *ps_twin_of(PsTwins *twins, PyObject *object) noexcept
    void ps_meet_twin(PsTwins *twins, PyObject *object, PyObject *twin) noexcept

cdef extern from "values/decimal_cache.h":
    ctypedef struct PsDecimalCache:
        pass
    PyObject *ps_kept_decimal(
        PsDecimalCache *cache, const uint8_t *data, size_t size
    ) noexcept
    void ps_keep_decimal(
        PsDecimalCache *cache, const uint8_t *data, size_t size, PyObject *value
    ) noexcept

ctypedef object (*New)(PyTypeObject *, PyObject *, PyObject *)

# Caches, since prices repeat: the strings of decimals, and the decimals of strings.
cdef PsTwins decimal_texts
cdef PsDecimalCache text_decimals

import_datetime()

# The values of docs/formats/codec.md.
cdef enum:
    INT8 = 0x03
    INT16 = 0x04
    INT32 = 0x05
    INT64 = 0x06
    NONE = 0x00
    BYTES = 0x0A
    TUPLE = 0x0C
    TAG_DATETIME = 0x10
    TAG_DATE = 0x11
    TAG_TIMEDELTA = 0x13
    TAG_TIMEZONE = 0x14
    TAG_DECIMAL = 0x16
    TAG_ROW = 0x17
    TAG_NUMPY_SCALAR = 0x1C
    TAG_UUID = 0x23
    SHORT_STR = 0x40
    SHORT_TUPLE = 0x80
    FIRST_SMALL_INT = 0xA0
    SMALL_INT = 0xC0
    # The ordinal of day 0 in datetime's count from year 1.
    EPOCH_ORDINAL = 719163
    # Deepest nesting of a value in this module, so that no code here counts levels.
    OWN_LEVELS = 4
    # Most characters of a decimal whose text is cached.
    KEPT_TEXT = 63

cdef object UTC = datetime.UTC
cdef object Decimal = decimal.Decimal
cdef object Uuid = uuid.UUID
cdef object UNKNOWN_SAFETY = uuid.SafeUUID.unknown
cdef object INSERT = RowKind.INSERT
cdef bint IS_LITTLE = sys.byteorder == "little"

# The day of the last moment read: moments of a stream are close to each other.
cdef int64_t last_day = PS_LAST_DAY + 1
cdef int last_year, last_month, last_day_of_month

# Classes of scalars by the text of their dtype; filled when numpy is first needed.
cdef dict NUMPY_CLASSES = {}


cdef bint write_scalar(Writer *writer, ClassForm form, object value, int depth) except -1:
    if depth + OWN_LEVELS >= MAX_DEPTH:
        return False
    if form.kind == DATETIME:
        return write_datetime(writer, value, depth)
    if form.kind == DECIMAL:
        put_tag(writer, TAG_DECIMAL)
        return write_decimal_text(writer, value, depth)
    if form.kind == DATE:
        put_tag(writer, TAG_DATE)
        write_number(
            writer,
            ps_day_of(date_year(value), date_month(value), date_day(value)) + EPOCH_ORDINAL,
        )
        return True
    if form.kind == TIMEDELTA:
        return write_timedelta(writer, value)
    if form.kind == UUID:
        return write_uuid(writer, value)
    if form.kind == ROW:
        return write_row(writer, <RowBase>value, depth)
    return write_numpy(writer, form, value)


cdef bint write_decimal_text(Writer *writer, object value, int depth) except -1:
    cdef PyObject *known = ps_twin_of(&decimal_texts, <PyObject *>value)
    cdef object text
    if known == NULL:
        text = PyObject_Str(value)
        if len(text) <= KEPT_TEXT:
            ps_meet_twin(&decimal_texts, <PyObject *>value, <PyObject *>text)
    else:
        text = <object>known
    encode_dynamic(writer, text, depth + 1)
    return True


cdef bint write_row(Writer *writer, RowBase row, int depth) except -1:
    cdef object name, value
    put_tag(writer, TAG_ROW)
    put8(writer, SHORT_TUPLE + 3)
    put_tag(writer, SMALL_INT if row.kind is INSERT else SMALL_INT + <int>row.kind.value)
    if row.names is None:
        put_tag(writer, NONE)
    else:
        open_tuple(writer, len(row.names))
        for name in row.names:
            encode_dynamic(writer, name, depth + 3)
    open_tuple(writer, len(row.values))
    for value in row.values:
        encode_dynamic(writer, value, depth + 3)
    return True


cdef int open_tuple(Writer *writer, Py_ssize_t count) except -1:
    reserve(writer, 1 + MAX_VARINT_BYTES)
    if count < 16:
        put8(writer, <uint8_t>(SHORT_TUPLE + count))
    else:
        put8(writer, TUPLE)
        put_varint(writer, count)
    return 0


cdef object read_row(Reader *reader):
    """Read a row of less than 16 fields; repeated names are not decoded again."""
    cdef const uint8_t *start = reader.position
    cdef int64_t kind = 0
    cdef object names = None, values
    if start[0] != SHORT_TUPLE + 3 or left(reader) < 3:
        return None
    reader.position += 1
    if not read_number(reader, &kind) or not 0 <= kind <= 3:
        return None
    reader.depth += 2
    if reader.position < reader.end and reader.position[0] == NONE:
        reader.position += 1
    else:
        names = decode_dynamic(reader)
    values = decode_dynamic(reader)
    reader.depth -= 2
    if type(values) is not tuple or not (names is None or type(names) is tuple):
        return None
    return make_row(
        None if names is None else list(names), list(values),
        INSERT if kind == 0 else RowKind(kind),
    )


cdef inline int put_tag(Writer *writer, uint8_t tag) except -1:
    reserve(writer, 2)
    put8(writer, tag)
    return 0


cdef int64_t wall_micros(object value) noexcept:
    cdef int64_t micros = ps_day_of(
        datetime_year(value), datetime_month(value), datetime_day(value)
    )
    micros = (micros * 24 + datetime_hour(value)) * 60 + datetime_minute(value)
    return (micros * 60 + datetime_second(value)) * 1_000_000 + datetime_microsecond(value)


cdef bint write_datetime(Writer *writer, object value, int depth) except -1:
    cdef object zone = datetime_tzinfo(value)
    cdef int64_t micros = wall_micros(value)
    reserve(writer, 15)
    put8(writer, TAG_DATETIME)
    put8(writer, SHORT_TUPLE + (2 if zone is None else 3))
    if micros == <int32_t>micros:
        write_number(writer, micros)
        reserve(writer, 4)
    else:
        put8(writer, INT64)
        put64(writer, <uint64_t>micros)
    put8(writer, SMALL_INT + datetime_fold(value))
    if zone is UTC:
        put8(writer, TAG_TIMEZONE)
        put8(writer, SHORT_TUPLE + 1)
        put8(writer, SMALL_INT)
    elif zone is not None:
        encode_dynamic(writer, zone, depth + 2)
    return True


cdef bint write_timedelta(Writer *writer, object value) except -1:
    cdef int64_t days = timedelta_days(value)
    # The general encoding handles more microseconds than 64 bits hold.
    if not -100_000_000 < days < 100_000_000:
        return False
    put_tag(writer, TAG_TIMEDELTA)
    write_number(
        writer,
        days * PS_DAY_MICROS
        + <int64_t>timedelta_seconds(value) * 1_000_000
        + timedelta_microseconds(value),
    )
    return True


cdef bint write_uuid(Writer *writer, object value) except -1:
    cdef object number
    if value.is_safe is not UNKNOWN_SAFETY:
        return False
    number = value.int
    reserve(writer, 17)
    put8(writer, TAG_UUID)
    put64(writer, PyLong_AsUnsignedLongLongMask(number >> 64))
    put64(writer, PyLong_AsUnsignedLongLongMask(number))
    return True


cdef object read_uuid(Reader *reader):
    cdef object made
    need(reader, 16)
    made = (<New><void *>(<PyTypeObject *>Uuid).tp_new)(
        <PyTypeObject *>Uuid, <PyObject *>(), NULL
    )
    PyObject_GenericSetAttr(made, "int", _PyLong_FromByteArray(reader.position, 16, 0, 0))
    PyObject_GenericSetAttr(made, "is_safe", UNKNOWN_SAFETY)
    reader.position += 16
    return made


cdef bint write_numpy(Writer *writer, ClassForm form, object value) except -1:
    """Write a number; ``form.signed`` is the dtype, such as ``<f8``."""
    cdef const char *dtype = <const char *>form.signed
    cdef char kind = dtype[1]
    cdef uint8_t size = dtype[2] - 48
    cdef double real
    cdef float narrow
    cdef uint64_t bits
    if kind == b"f":
        real = PyFloat_AsDouble(value)
        if size == 4:
            narrow = <float>real
            memcpy(&bits, &narrow, 4)
        else:
            bits = ps_double_bits(real)
    elif kind == b"b":
        bits = 1 if value else 0
    else:
        bits = PyLong_AsUnsignedLongLongMask(PyNumber_Index(value))
    reserve(writer, 16)
    put8(writer, TAG_NUMPY_SCALAR)
    put8(writer, SHORT_TUPLE + 2)
    put8(writer, SHORT_STR + 3)
    memcpy(writer.data + writer.position, dtype, 3)
    writer.position += 3
    put8(writer, BYTES)
    put8(writer, size)
    memcpy(writer.data + writer.position, &bits, size)
    writer.position += size
    return True


cdef inline bint read_number(Reader *reader, int64_t *number) except -1:
    """Read an integer of at most 64 bits; return False, reading nothing, for anything else."""
    cdef uint8_t tag
    if left(reader) < 9:
        # Near the end of a record; the other checks do not apply.
        return read_last_number(reader, number)
    tag = reader.position[0]
    if tag == INT64:
        reader.position += 1
        number[0] = <int64_t>get64(reader)
        return True
    return read_last_number(reader, number)


cdef bint read_last_number(Reader *reader, int64_t *number) except -1:
    cdef uint8_t tag
    cdef size_t size
    need(reader, 1)
    tag = reader.position[0]
    if tag >= FIRST_SMALL_INT:
        number[0] = <int64_t>tag - SMALL_INT
        reader.position += 1
        return True
    if tag < INT8 or tag > INT64:
        return False
    size = 1 << (tag - INT8)
    need(reader, 1 + size)
    reader.position += 1
    if tag == INT8:
        number[0] = <int8_t>get8(reader)
    elif tag == INT16:
        number[0] = <int16_t>get16(reader)
    elif tag == INT32:
        number[0] = <int32_t>get32(reader)
    else:
        number[0] = <int64_t>get64(reader)
    return True


cdef object read_scalar(Reader *reader, int tag):
    cdef const uint8_t *start = reader.position
    cdef object value = None
    if reader.depth + OWN_LEVELS >= MAX_DEPTH or left(reader) < 1:
        return None
    if tag == TAG_DATETIME:
        value = read_datetime(reader)
    elif tag == TAG_DECIMAL:
        if SHORT_STR <= start[0] < SHORT_TUPLE:
            reader.position += 1
            value = read_decimal(reader, start[0] - SHORT_STR)
    elif tag == TAG_DATE:
        value = read_date(reader)
    elif tag == TAG_TIMEDELTA:
        value = read_timedelta(reader)
    elif tag == TAG_ROW:
        value = read_row(reader)
    elif tag == TAG_NUMPY_SCALAR:
        value = read_numpy(reader)
    if value is None:
        reader.position = start
    return value


cdef object read_decimal(Reader *reader, Py_ssize_t size):
    cdef const uint8_t *data = reader.position
    cdef PyObject *known
    cdef object text, value
    need(reader, size)
    known = ps_kept_decimal(&text_decimals, data, size)
    if known != NULL:
        reader.position += size
        return <object>known
    text = read_text(reader, size)
    try:
        value = Decimal(text)
    except decimal.InvalidOperation:
        return None
    ps_keep_decimal(&text_decimals, data, size, <PyObject *>value)
    return value


cdef object read_date(Reader *reader):
    cdef int64_t ordinal = 0
    cdef int year, month, day
    if not read_number(reader, &ordinal) or not 1 <= ordinal <= PS_LAST_DAY + EPOCH_ORDINAL:
        return None
    ps_date_of(<int32_t>(ordinal - EPOCH_ORDINAL), &year, &month, &day)
    return date_new(year, month, day)


cdef object read_timedelta(Reader *reader):
    cdef int64_t micros = 0, days, rest
    if not read_number(reader, &micros):
        return None
    days = micros // PS_DAY_MICROS
    rest = micros - days * PS_DAY_MICROS
    if rest < 0:
        days -= 1
        rest += PS_DAY_MICROS
    return timedelta_new(<int>days, <int>(rest // 1_000_000), <int>(rest % 1_000_000))


cdef object read_datetime(Reader *reader):
    cdef int64_t micros = 0, fold = 0
    cdef uint8_t parts = reader.position[0]
    cdef object zone = None
    if parts != SHORT_TUPLE + 2 and parts != SHORT_TUPLE + 3:
        return None
    reader.position += 1
    if not read_number(reader, &micros) or not read_number(reader, &fold) or fold >> 1:
        return None
    if parts == SHORT_TUPLE + 3:
        zone = read_zone(reader)
        if zone is None:
            return None
    return moment_of(micros, zone, <int>fold)


cdef object moment_of(int64_t micros, object zone, int fold):
    global last_day
    cdef int64_t days = micros // PS_DAY_MICROS, seconds
    cdef int rest
    micros -= days * PS_DAY_MICROS
    if micros < 0:
        days -= 1
        micros += PS_DAY_MICROS
    if not PS_FIRST_DAY <= days <= PS_LAST_DAY:
        return None
    if days != last_day:
        ps_date_of(<int32_t>days, &last_year, &last_month, &last_day_of_month)
        last_day = days
    seconds = micros // 1_000_000
    rest = <int>(seconds % 3600)
    return datetime_new(
        last_year, last_month, last_day_of_month, <int>(seconds // 3600), rest // 60, rest % 60,
        <int>(micros % 1_000_000), zone, fold,
    )


cdef object read_zone(Reader *reader):
    """Read a time zone; return None if no time zone follows."""
    cdef const uint8_t *data = reader.position
    cdef object zone
    if (
        left(reader) >= 3 and data[0] == TAG_TIMEZONE
        and data[1] == SHORT_TUPLE + 1 and data[2] == SMALL_INT
    ):
        reader.position += 3
        return UTC
    reader.depth += 2
    zone = decode_dynamic(reader)
    reader.depth -= 2
    return zone if isinstance(zone, datetime.tzinfo) else None


cdef object read_numpy(Reader *reader):
    cdef const uint8_t *data = reader.position
    cdef char kind
    cdef size_t size
    cdef PyObject *found
    cdef object number
    if (
        not IS_LITTLE or left(reader) < 7 or data[0] != SHORT_TUPLE + 2
        or data[1] != SHORT_STR + 3 or data[5] != BYTES
    ):
        return None
    kind = data[3]
    size = data[4] - 48
    if size > 8 or data[6] != size or left(reader) < 7 + size:
        return None
    if not NUMPY_CLASSES:
        fill_numpy_classes()
    found = PyDict_GetItem(NUMPY_CLASSES, (<const char *>data)[2:5])
    if found == NULL:
        return None
    reader.position += 7 + size
    if kind == b"b":
        # As for bool, there are two instances.
        return (<object>found)(data[7] != 0)
    # As numpy creates a scalar: its value follows the object's header.
    number = ps_allocated(<PyTypeObject *>found)
    memcpy(<char *><PyObject *>number + sizeof(PyObject), data + 7, size)
    return number


cdef int fill_numpy_classes() except -1:
    import numpy

    for name in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"):
        dtype = numpy.dtype(name)
        NUMPY_CLASSES[dtype.str.encode()] = dtype.type
    return 0


def scalar_kind(cls):
    """Return the kind of a class of this module, with a numpy number's dtype; None for others."""
    kind = {
        datetime.datetime: DATETIME, datetime.date: DATE, datetime.timedelta: TIMEDELTA,
        decimal.Decimal: DECIMAL, uuid.UUID: UUID,
    }.get(cls)
    if kind is not None:
        return kind, None
    if cls is Row and issubclass(cls, RowBase):
        return ROW, None
    numpy = loaded_numpy()
    if numpy is not None and IS_LITTLE and issubclass(cls, numpy.generic):
        if not NUMPY_CLASSES:
            fill_numpy_classes()
        for dtype, known in NUMPY_CLASSES.items():
            if known is cls:
                return NUMPY, dtype
    return None
