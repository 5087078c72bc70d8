/* The function table that penstock._core offers to the Cython extensions.
 *
 * Mirrored by rust/py.  Append only; any other change bumps PS_CAPI_ABI_VERSION.  Every function
 * returns a negative number for an error, whose text `last_error` gives to the same thread.
 */
#ifndef PENSTOCK_CAPI_H
#define PENSTOCK_CAPI_H

#include <stddef.h>
#include <stdint.h>

#define PS_CAPI_ABI_VERSION 2
#define PS_RAISED (-2)

/* Opaque, borrowed from the Python objects that own them: ResultPartition._handle and
 * InputGate._handle are capsules named "penstock.partition" and "penstock.gate". */
typedef struct PsPartition PsPartition;
typedef struct PsGate PsGate;

/* An open BufferBuilder that the writer fills in place: it writes bytes to data + position,
 * advances the position, then stores *marker = position with release order and *dirty = 1.
 * Capacity 0 means that no builder is open. */
typedef struct {
    uint8_t *data;
    uint32_t position;
    uint32_t capacity;
    int32_t *marker;
    uint8_t *dirty;
} PsCursor;

/* The contents of one buffer of a gate; valid until the next call for the same gate. */
typedef struct {
    int32_t kind; /* 0 none (timeout, woken), 1 data, 2 event, 3 end of input (all channels) */
    int32_t channel;
    int32_t data_type;
    const uint8_t *spanning; /* payload of a record completed by this buffer, or NULL */
    size_t spanning_len;
    const uint8_t *records; /* whole [length][payload] records in place; the bytes of an event */
    size_t records_len;
} PsBatch;

typedef struct {
    uint32_t abi_version;
    uint32_t struct_size;
    /* Writes the number of the kind (penstock/network/error_codes.py) as a big-endian u16, and the
     * message; returns their size. */
    size_t (*last_error)(uint8_t *out, size_t capacity);
    /* Finishes the open builder with the position that its cursor says and requests the next one.
     * Blocks: call without the GIL.  Subpartition -1 is the broadcast builder. */
    int32_t (*partition_next_buffer)(PsPartition *, int32_t subpartition, PsCursor *);
    /* As above, but returns 1 at once if no buffer is free. */
    int32_t (*partition_try_next_buffer)(PsPartition *, int32_t subpartition, PsCursor *);
    /* Appends across as many buffers as necessary, with the lengths of partial records; updates
     * the cursor.  Blocks: call without the GIL. */
    int32_t (*partition_append)(PsPartition *, int32_t subpartition, PsCursor *,
                                const uint8_t *data, size_t len);
    int32_t (*partition_flush)(PsPartition *, int32_t subpartition); /* -1 for all */
    /* Broadcasts; finishes all builders, so that every cursor is void afterwards. */
    int32_t (*partition_event)(PsPartition *, const uint8_t *data, size_t len, int32_t data_type);
    /* Returns the buffer of the previous batch first.  Blocks: call without the GIL, which it
     * acquires to run signal handlers; PS_RAISED: a handler raised, and the exception is set. */
    int32_t (*gate_next)(PsGate *, int64_t timeout_ms, PsBatch *);
    /* As above, but never blocks. */
    int32_t (*gate_try_next)(PsGate *, PsBatch *);
    /* A byte that is not 0 while gate_next_urgent may have an event; other threads write it. */
    const uint8_t *(*gate_urgent)(PsGate *);
    /* The next event that overtakes data, or none; never blocks.  The previous batch stays valid,
     * this one until the next call of this function. */
    int32_t (*gate_next_urgent)(PsGate *, PsBatch *);
} CApi;

#endif
