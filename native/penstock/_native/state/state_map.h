/* The entries of one namespace of a keyed state, for state_table.pyx: a hash table in insertion
 * order.
 *
 * Entries are contiguous and keep their positions until they are removed; later entries reuse the
 * free places.  Beyond a few entries, an index of positions by hash is kept beside them.  It
 * stores the hashes as well, so that a look-up only reads its own entry: each further one would
 * come from main memory.  An integer of up to 63 bits is stored in the entry itself, as key and as
 * value: such an entry costs no object.  Anything else is a reference.
 *
 * The garbage collector does not see these references: it need not traverse the state of a task,
 * and a cycle through it lives until the map is cleared.
 */
#ifndef PENSTOCK_STATE_MAP_H
#define PENSTOCK_STATE_MAP_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "values/integers.h"
#include "wire/text_cache.h"

/* An integer, shifted left by one, plus one; or a pointer, which is even; or 0 for none. */
typedef uintptr_t PsWord;

typedef struct {
    PsWord key;     /* 0 in a free place */
    PsWord value;   /* in a free place, the next free one plus one */
    uint32_t hash;
    uint32_t epoch; /* the table's epoch when the value was last written, or read to be changed */
} PsEntry;

typedef struct {
    uint32_t hash;
    int32_t position; /* or PS_NONE, or PS_REMOVED */
} PsSlot;

typedef struct {
    PsEntry *entries;
    PsSlot *index;    /* by hash; NULL for few entries */
    uint32_t mask;    /* size of the index less one */
    uint32_t filled;  /* slots of the index in use or removed */
    int32_t used;     /* entries, including the free places among them */
    int32_t capacity;
    int32_t count;    /* entries without the free places */
    int32_t free;     /* the first free place plus one, or 0 */
} PsStateMap;

/* Integers from -PS_MOST up to PS_MOST - 1 are stored in a word. */
#define PS_MOST ((int64_t)1 << 62)

/* The sum of two integers below this limit fits into an entry. */
#define PS_MAX_TERM ((int64_t)1 << 61)

enum { PS_NONE = -1, PS_REMOVED = -2, PS_FAILED = -3, PS_FEW_ENTRIES = 8 };

static inline int ps_is_integer(PsWord word) { return word & 1; }

static inline int64_t ps_integer(PsWord word) { return (int64_t)word >> 1; }

/* The word of an integer of up to 63 bits. */
static inline PsWord ps_integer_word(int64_t number) { return (PsWord)((uint64_t)number << 1 | 1); }

/* The word of an object, borrowed: the caller counts a reference if it keeps a pointer. */
static inline PsWord ps_pack(PyObject *object) {
    int64_t number;
    int overflow = 0;
    if (PyLong_CheckExact(object)) {
        if (!ps_short_int(object, &number)) {
            number = PyLong_AsLongLongAndOverflow(object, &overflow);
        }
        if (!overflow && number >= -PS_MOST && number < PS_MOST) {
            return ps_integer_word(number);
        }
    }
    return (PsWord)object;
}

/* A new reference to the word's object. */
static inline PyObject *ps_unpack(PsWord word) {
    if (ps_is_integer(word)) {
        return PyLong_FromLongLong(ps_integer(word));
    }
    return Py_NewRef((PyObject *)word);
}

static inline void ps_hold(PsWord word) {
    if (!ps_is_integer(word)) {
        Py_INCREF((PyObject *)word);
    }
}

static inline void ps_release(PsWord word) {
    if (word && !ps_is_integer(word)) {
        Py_DECREF((PyObject *)word);
    }
}

/* Multiplication by the golden ratio: keys that differ in few bits must not share their place. */
static inline uint32_t ps_spread(uint64_t hash) {
    return (uint32_t)((hash * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

static inline int ps_hash_word(PsWord word, uint32_t *hash) {
    Py_hash_t code;
    if (ps_is_integer(word)) {
        *hash = ps_spread((uint64_t)word);
        return 0;
    }
    if (PyUnicode_CheckExact((PyObject *)word) && ((PyASCIIObject *)word)->hash != -1) {
        *hash = ps_spread((uint64_t)((PyASCIIObject *)word)->hash);
        return 0;
    }
    code = PyObject_Hash((PyObject *)word);
    if (code == -1) {
        return -1;
    }
    *hash = ps_spread((uint64_t)code);
    return 0;
}

/* Compare two pointers of equal hash as keys: 1 if equal, 0 if not, or -1 with an exception. */
static inline int ps_same_object(PyObject *one, PyObject *other) {
    int same;
    if (one == other) {
        return 1;
    }
    if (Py_TYPE(one) != Py_TYPE(other)) {
        return 0; /* keys of different types differ */
    }
    if (PyUnicode_CheckExact(one)) {
        const Py_ssize_t length = PyUnicode_GET_LENGTH(one);
        const int kind = PyUnicode_KIND(one);
        return length == PyUnicode_GET_LENGTH(other) && kind == (int)PyUnicode_KIND(other) &&
               memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), (size_t)(length * kind)) == 0;
    }
    /* Held, since the key may contain a user-defined namespace, whose comparison runs its code. */
    Py_INCREF(one);
    same = PyObject_RichCompareBool(one, other, Py_EQ);
    Py_DECREF(one);
    return same;
}

static inline int ps_same_word(PsWord one, PsWord other) {
    if (one == other) {
        return 1;
    }
    if (ps_is_integer(one) || ps_is_integer(other)) {
        return 0;
    }
    return ps_same_object((PyObject *)one, (PyObject *)other);
}

static inline int32_t ps_scan(const PsStateMap *map, PsWord key, uint32_t hash) {
    for (int32_t position = 0; position < map->used; position++) {
        const PsEntry *entry = &map->entries[position];
        if (entry->hash == hash && entry->key) {
            const int same = ps_same_word(entry->key, key);
            if (same) {
                return same < 0 ? PS_FAILED : position;
            }
        }
    }
    return PS_NONE;
}

/* Return the position of a key; PS_NONE, or PS_FAILED with an exception. */
static inline int32_t ps_find(const PsStateMap *map, PsWord key, uint32_t hash) {
    uint32_t place = hash;
    if (!map->index) {
        return ps_scan(map, key, hash);
    }
    for (;; place++) {
        const PsSlot slot = map->index[place & map->mask];
        if (slot.position == PS_NONE) {
            return PS_NONE;
        }
        if (slot.hash == hash && slot.position >= 0) {
            const int same = ps_same_word(map->entries[slot.position].key, key);
            if (same) {
                return same < 0 ? PS_FAILED : slot.position;
            }
        }
    }
}

/* As `ps_find`, but first check where a text was found last, which was fetched with it. */
static inline int32_t ps_find_again(const PsStateMap *map, PsTextCache *texts, PsWord key,
                                    uint32_t hash) {
    PsTextSlot *slot = NULL;
    int32_t position;
    if (!ps_is_integer(key) && PyUnicode_CheckExact((PyObject *)key)) {
        slot = ps_slot_of(texts, (PyObject *)key);
    }
    if (slot != NULL) {
        const size_t place = ((uintptr_t)slot->place - (uintptr_t)map->entries) / sizeof(PsEntry);
        if (place < (size_t)map->used) {
            const PsEntry *entry = &map->entries[place];
            if (entry->hash == hash && entry->key && ps_same_word(entry->key, key) > 0) {
                return (int32_t)place;
            }
        }
    }
    position = ps_find(map, key, hash);
    if (slot != NULL && position >= 0) {
        slot->place = &map->entries[position];
    }
    return position;
}

/* Prefetch the memory that `ps_find` of a key will read. */
static inline void ps_prefetch(const PsStateMap *map, uint32_t hash) {
    if (map->index) {
        __builtin_prefetch(&map->index[hash & map->mask]);
    }
}

static inline void ps_index_position(PsStateMap *map, uint32_t hash, int32_t position) {
    uint32_t place = hash;
    while (map->index[place & map->mask].position != PS_NONE) {
        place++;
    }
    map->index[place & map->mask] = (PsSlot){hash, position};
    map->filled++;
}

/* Rebuild the index with room for as many entries again, without removed slots. */
static inline int ps_rebuild_index(PsStateMap *map) {
    size_t size = 16;
    PsSlot *index;
    while (size < (size_t)map->count * 3) {
        size *= 2;
    }
    index = (PsSlot *)PyMem_RawMalloc(size * sizeof(PsSlot));
    if (!index) {
        PyErr_NoMemory();
        return -1;
    }
    memset(index, 0xFF, size * sizeof(PsSlot)); /* PS_NONE */
    PyMem_RawFree(map->index);
    map->index = index;
    map->mask = (uint32_t)(size - 1);
    map->filled = 0;
    for (int32_t position = 0; position < map->used; position++) {
        if (map->entries[position].key) {
            ps_index_position(map, map->entries[position].hash, position);
        }
    }
    return 0;
}

static inline int ps_grow_entries(PsStateMap *map) {
    const int64_t capacity = map->capacity;
    const int64_t wanted = capacity < 4 ? capacity + 1 : capacity + capacity / 4 + 3;
    PsEntry *entries;
    if (wanted > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a state of one namespace has 2^31 entries");
        return -1;
    }
    entries = (PsEntry *)PyMem_RawRealloc(map->entries, (size_t)wanted * sizeof(PsEntry));
    if (!entries) {
        PyErr_NoMemory();
        return -1;
    }
    map->entries = entries;
    map->capacity = (int32_t)wanted;
    return 0;
}

/* Add a missing key, and count references to both; return its position or PS_FAILED. */
static inline int32_t ps_insert(PsStateMap *map, PsWord key, uint32_t hash, PsWord value,
                                uint32_t epoch) {
    int32_t position;
    PsEntry *entry;
    if (map->free) {
        position = map->free - 1;
    } else {
        position = map->used;
        if (position == map->capacity && ps_grow_entries(map) < 0) {
            return PS_FAILED;
        }
    }
    if (map->index) {
        /* A third of the index stays empty, or a look-up would scan all of it. */
        if ((uint64_t)(map->filled + 1) * 3 > (uint64_t)(map->mask + 1) * 2 &&
            ps_rebuild_index(map) < 0) {
            return PS_FAILED;
        }
    }
    entry = &map->entries[position];
    if (map->free) {
        map->free = (int32_t)entry->value;
    } else {
        map->used++;
    }
    ps_hold(key);
    ps_hold(value);
    *entry = (PsEntry){key, value, hash, epoch};
    map->count++;
    if (map->index) {
        ps_index_position(map, hash, position);
    } else if (map->count > PS_FEW_ENTRIES && ps_rebuild_index(map) < 0) {
        /* Without memory for an index, entries are found by a scan. */
        PyErr_Clear();
    }
    return position;
}

/* Remove an entry; the caller owns its references. */
static inline PsEntry ps_take_out(PsStateMap *map, int32_t position) {
    const PsEntry entry = map->entries[position];
    if (map->index) {
        uint32_t place = entry.hash;
        while (map->index[place & map->mask].position != position) {
            place++;
        }
        map->index[place & map->mask].position = PS_REMOVED;
    }
    map->entries[position].key = 0;
    map->entries[position].value = (PsWord)map->free;
    map->free = position + 1;
    map->count--;
    return entry;
}

/* Return whether a value is immutable, so that a snapshot may read it later. */
static inline int ps_never_changes(PsWord word, int depth) {
    PyObject *object = (PyObject *)word;
    if (ps_is_integer(word) || PyUnicode_CheckExact(object) || PyFloat_CheckExact(object) ||
        PyLong_CheckExact(object) || PyBytes_CheckExact(object) || PyBool_Check(object) ||
        object == Py_None) {
        return 1;
    }
    if (!PyTuple_CheckExact(object) || depth == 0 || PyTuple_GET_SIZE(object) > 16) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
        if (!ps_never_changes((PsWord)PyTuple_GET_ITEM(object, i), depth - 1)) {
            return 0;
        }
    }
    return 1;
}

/* Empty the map; the caller owns the returned entries and releases them. */
static inline PsEntry *ps_empty(PsStateMap *map, int32_t *used) {
    PsEntry *entries = map->entries;
    *used = map->used;
    PyMem_RawFree(map->index);
    memset(map, 0, sizeof(*map));
    return entries;
}

/* Reset the map; its contents belong to a copy. */
static inline void ps_forget(PsStateMap *map) { memset(map, 0, sizeof(*map)); }

static inline void ps_release_entries(PsEntry *entries, int32_t used) {
    for (int32_t position = 0; position < used; position++) {
        if (entries[position].key) {
            ps_release(entries[position].key);
            ps_release(entries[position].value);
        }
    }
    PyMem_RawFree(entries);
}

#endif
