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

/* Of a record in a segment: the sizes of key and value, and the number of its input; then both. */
typedef struct {
    uint32_t key_size;
    uint32_t value_size;
    uint8_t input_number;
} PsRecordHeader;

#define PS_RECORD_HEADER_BYTES 9

static inline PsRecordHeader ps_record_header(const uint8_t *record) {
    PsRecordHeader header;
    memcpy(&header.key_size, record, 4);
    memcpy(&header.value_size, record + 4, 4);
    header.input_number = record[8];
    return header;
}

static inline void ps_put_record_header(uint8_t *record, PsRecordHeader header) {
    memcpy(record, &header.key_size, 4);
    memcpy(record + 4, &header.value_size, 4);
    record[8] = header.input_number;
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

/* The order of two keys: negative, 0 or positive. */
static inline int ps_compare_keys(const PsEntry *a, const PsEntry *b) {
    uint8_t low;
    if (a->normalized != b->normalized) {
        return a->normalized < b->normalized ? -1 : 1;
    }
    low = (uint8_t)a->normalized;
    if (low >= 1 && low <= 8) {
        return 0;
    }
    return ps_compare_bytes(a->record + PS_RECORD_HEADER_BYTES, ps_record_header(a->record).key_size,
                            b->record + PS_RECORD_HEADER_BYTES,
                            ps_record_header(b->record).key_size);
}

/* Whether `b` belongs before `a`, which has arrived earlier. */
static inline int ps_is_after(const PsEntry *a, const PsEntry *b) {
    int order = ps_compare_keys(a, b);
    return order != 0 ? order > 0 : a->timestamp > b->timestamp;
}

/* Sorts entries, those that are equal in the order of their places: a bottom-up merge sort of runs
   that insertion has sorted.  `spare` has room for as many entries. */
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
