/* Byte order and the text layout of CPython, for wire.pxd. */
#ifndef PENSTOCK_WIRE_H
#define PENSTOCK_WIRE_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline void ps_store16(uint8_t *to, uint16_t value) {
    value = __builtin_bswap16(value);
    memcpy(to, &value, 2);
}

static inline void ps_store32(uint8_t *to, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(to, &value, 4);
}

static inline void ps_store64(uint8_t *to, uint64_t value) {
    value = __builtin_bswap64(value);
    memcpy(to, &value, 8);
}

static inline uint16_t ps_load16(const uint8_t *from) {
    uint16_t value;
    memcpy(&value, from, 2);
    return __builtin_bswap16(value);
}

static inline uint32_t ps_load32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, 4);
    return __builtin_bswap32(value);
}

static inline uint64_t ps_load64(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, 8);
    return __builtin_bswap64(value);
}

/* Copy without a call for sizes up to two words.  Both ranges hold `size` bytes. */
static inline void ps_copy(uint8_t *to, const uint8_t *from, size_t size) {
    if (size <= 16) {
        if (size >= 8) {
            uint64_t head, tail;
            memcpy(&head, from, 8);
            memcpy(&tail, from + size - 8, 8);
            memcpy(to, &head, 8);
            memcpy(to + size - 8, &tail, 8);
        } else if (size >= 4) {
            uint32_t head, tail;
            memcpy(&head, from, 4);
            memcpy(&tail, from + size - 4, 4);
            memcpy(to, &head, 4);
            memcpy(to + size - 4, &tail, 4);
        } else if (size) {
            to[0] = from[0];
            to[size >> 1] = from[size >> 1];
            to[size - 1] = from[size - 1];
        }
    } else {
        memcpy(to, from, size);
    }
}

static inline int ps_is_ascii(const uint8_t *data, size_t size) {
    const uint64_t high = UINT64_C(0x8080808080808080);
    uint64_t seen = 0, word;
    uint32_t head, tail;
    size_t i;
    if (size >= 8) {
        for (i = 0; i + 8 < size; i += 8) {
            memcpy(&word, data + i, 8);
            seen |= word;
        }
        memcpy(&word, data + size - 8, 8);
        return ((seen | word) & high) == 0;
    }
    if (size >= 4) {
        memcpy(&head, data, 4);
        memcpy(&tail, data + size - 4, 4);
        return ((head | tail) & (uint32_t)high) == 0;
    }
    for (i = 0; i < size; i++) {
        seen |= data[i];
    }
    return (seen & high) == 0;
}

/* Return a new str of ASCII bytes, which the caller has checked. */
static inline PyObject *ps_ascii_to_text(const uint8_t *data, Py_ssize_t size) {
    PyObject *text;
    if (size <= 1) {
        /* CPython keeps one object for each of these. */
        return PyUnicode_DecodeLatin1((const char *)data, size, NULL);
    }
    text = PyUnicode_New(size, 127);
    if (text != NULL) {
        ps_copy((uint8_t *)PyUnicode_1BYTE_DATA(text), data, (size_t)size);
    }
    return text;
}

static inline uint32_t ps_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline float ps_float_from(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline uint64_t ps_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

static inline double ps_double_from(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

#endif
