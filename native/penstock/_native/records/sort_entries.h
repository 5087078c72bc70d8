/* Index entries of serialised records, and how they are ordered: by key, time and arrival.

   An entry has a normalised key: eight bytes that are compared as one number before the keys
   themselves.  They are the seven bytes of the key behind the prefix that all keys seem to share,
   zero-filled, and a byte that says how many of the seven the key has:

     low byte   meaning
     0          the key lies before those with the prefix; the rest is 0
     1 to 8     the key has 0 to 7 bytes behind the prefix, and all of them are here
     9          it has more
     255        the key lies behind those with the prefix; the rest is 255

   Equal normalised keys with a low byte of 1 to 8 are equal keys; others are compared in full.
   The scheme is that of Flink's NormalizedKeySorter, with the prefix left out as well. */
#ifndef PS_SORT_ENTRIES_H
#define PS_SORT_ENTRIES_H

#include <stdint.h>
#include <string.h>

/* A serialised record: the number of its input, the sizes of key and value as unsigned LEB128, then
   both.  A key without bytes is wholly in the normalised key of the entry: no other key is empty,
   since each begins with a byte for its kind. */
typedef struct {
    const uint8_t *key;
    const uint8_t *value;
    uint32_t key_size;
    uint32_t value_size;
    uint8_t input_number;
} PsRecord;

#define PS_RECORD_HEADER_BYTES 11

static inline const uint8_t *ps_read_size(const uint8_t *data, uint32_t *size) {
    uint32_t value = *data++;
    int shift = 7;
    if (value >= 0x80) {
        value &= 0x7F;
        do {
            value |= (uint32_t)(*data & 0x7F) << shift;
            shift += 7;
        } while (*data++ >= 0x80);
    }
    *size = value;
    return data;
}

static inline uint8_t *ps_put_size(uint8_t *to, uint32_t size) {
    while (size >= 0x80) {
        *to++ = (uint8_t)(size | 0x80);
        size >>= 7;
    }
    *to++ = (uint8_t)size;
    return to;
}

static inline PsRecord ps_read_record(const uint8_t *data) {
    PsRecord record;
    record.input_number = *data;
    record.key = ps_read_size(ps_read_size(data + 1, &record.key_size), &record.value_size);
    record.value = record.key + record.key_size;
    return record;
}

/* Write the header before the key, and return the position of the key. */
static inline uint8_t *ps_put_header(uint8_t *to, uint8_t input_number, uint32_t key_size,
                                     uint32_t value_size) {
    *to = input_number;
    return ps_put_size(ps_put_size(to + 1, key_size), value_size);
}

typedef struct {
    uint64_t normalized;
    int64_t timestamp;
    const uint8_t *record;
} PsEntry;

static inline int ps_compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b,
                                   size_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static inline uint64_t ps_normalized_key(const uint8_t *key, size_t size, const uint8_t *prefix,
                                         size_t prefix_size) {
    uint64_t normalized = 0;
    size_t left, i;
    int order = memcmp(key, prefix, size < prefix_size ? size : prefix_size);
    if (order < 0 || (order == 0 && size < prefix_size)) {
        return 0;
    }
    if (order > 0) {
        return UINT64_MAX;
    }
    left = size - prefix_size;
    key += prefix_size;
    for (i = 0; i < 7; i++) {
        normalized = normalized << 8 | (i < left ? key[i] : 0);
    }
    return normalized << 8 | (left <= 7 ? left + 1 : 9);
}

/* Return whether a normalised key has all bytes of the key behind the prefix. */
static inline int ps_is_whole(uint64_t normalized) {
    return (uint8_t)(normalized - 1) < 8;
}

/* Write the bytes of a whole normalised key behind the prefix, at most 7; return their number. */
static inline size_t ps_put_suffix(uint8_t *to, uint64_t normalized) {
    size_t size = (uint8_t)normalized - 1, i;
    for (i = 0; i < size; i++) {
        to[i] = (uint8_t)(normalized >> (56 - 8 * i));
    }
    return size;
}

/* Compare two keys: negative, 0 or positive. */
static inline int ps_compare_keys(const PsEntry *a, const PsEntry *b) {
    PsRecord first, second;
    if (a->normalized != b->normalized) {
        return a->normalized < b->normalized ? -1 : 1;
    }
    if (ps_is_whole(a->normalized)) {
        return 0;
    }
    first = ps_read_record(a->record);
    second = ps_read_record(b->record);
    return ps_compare_bytes(first.key, first.key_size, second.key, second.key_size);
}

/* Return whether `b`, which arrived later, belongs before `a`. */
static inline int ps_is_after(const PsEntry *a, const PsEntry *b) {
    int order = ps_compare_keys(a, b);
    return order != 0 ? order > 0 : a->timestamp > b->timestamp;
}

/* Sort entries, keeping the order of equal ones: a bottom-up merge sort of runs that are sorted by
   insertion.  `spare` has room for as many entries. */
static void ps_sort_entries(PsEntry *entries, size_t count, PsEntry *spare) {
    const size_t run = 16;
    PsEntry *from = entries, *to = spare, *swapped;
    size_t start, end, middle, width, i, j, k;
    for (start = 0; start < count; start += run) {
        end = start + run < count ? start + run : count;
        for (i = start + 1; i < end; i++) {
            PsEntry entry = entries[i];
            for (j = i; j > start && ps_is_after(&entries[j - 1], &entry); j--) {
                entries[j] = entries[j - 1];
            }
            entries[j] = entry;
        }
    }
    for (width = run; width < count; width *= 2) {
        for (start = 0; start < count; start += 2 * width) {
            middle = start + width < count ? start + width : count;
            end = middle + width < count ? middle + width : count;
            i = start;
            j = middle;
            if (middle == end || !ps_is_after(&from[middle - 1], &from[middle])) {
                memcpy(&to[start], &from[start], (end - start) * sizeof(PsEntry));
                continue;
            }
            for (k = start; k < end; k++) {
                if (j == end || (i < middle && !ps_is_after(&from[i], &from[j]))) {
                    to[k] = from[i++];
                } else {
                    to[k] = from[j++];
                }
            }
        }
        swapped = from;
        from = to;
        to = swapped;
    }
    if (from != entries) {
        memcpy(entries, from, count * sizeof(PsEntry));
    }
}

#endif
