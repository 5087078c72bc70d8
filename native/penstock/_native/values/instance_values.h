/* Access to attributes of instances where CPython stores them, for instances.pyx.
 *
 * An instance has no dict until code asks for its __dict__: its attributes are values, at places
 * given by the keys of its class.  Going through the dict would create one for good.  The layout
 * is that of CPython 3.11 to 3.13; in other versions there are no places, and the dict is used.
 */
#ifndef PENSTOCK_INSTANCE_VALUES_H
#define PENSTOCK_INSTANCE_VALUES_H

#include <Python.h>
#include <stdint.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) && !defined(PYPY_VERSION)
#define PS_KNOWS_VALUES 1
#else
#define PS_KNOWS_VALUES 0
#endif

enum { PS_MAX_PLACES = 30 /* of CPython's own limit for shared keys */ };

typedef struct {
    const void *keys; /* of the class; NULL if the places are not known */
    uint8_t count;
    uint8_t places[PS_MAX_PLACES];
} PsPlaces;

#if PS_KNOWS_VALUES

typedef struct {
    Py_ssize_t refcnt;
    uint8_t log2_size;
    uint8_t log2_index_bytes;
    uint8_t kind;
    uint32_t version;
    Py_ssize_t usable;
    Py_ssize_t entries;
    char indices[];
} PsSharedKeys;

typedef struct {
    PyObject *name;
    PyObject *unused;
} PsSharedKey;

enum { PS_SPLIT_KEYS = 2 };

static inline const PsSharedKeys *ps_keys_of(PyTypeObject *cls) {
    return (const PsSharedKeys *)((PyHeapTypeObject *)cls)->ht_cached_keys;
}

/* Return whether instances of a class may have values; required by the functions below. */
static inline int ps_may_have_values(PyTypeObject *cls) {
    const unsigned long needed = Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_MANAGED_DICT;
    const PsSharedKeys *keys;
    if ((cls->tp_flags & needed) != needed) {
        return 0;
    }
    keys = ps_keys_of(cls);
    return keys != NULL && keys->kind == PS_SPLIT_KEYS;
}

/* Find the places of all names, which are interned; needs instances with these attributes. */
static inline void ps_find_places(PsPlaces *found, PyTypeObject *cls, PyObject *names) {
    const Py_ssize_t count = PyTuple_GET_SIZE(names);
    const PsSharedKeys *keys;
    const PsSharedKey *entries;
    Py_ssize_t i, place;
    found->keys = NULL;
    if (!ps_may_have_values(cls) || count > PS_MAX_PLACES) {
        return;
    }
    keys = ps_keys_of(cls);
    entries = (const PsSharedKey *)&keys->indices[(size_t)1 << keys->log2_index_bytes];
    for (i = 0; i < count; i++) {
        for (place = 0; place < keys->entries; place++) {
            if (entries[place].name == PyTuple_GET_ITEM(names, i)) {
                break;
            }
        }
        if (place == keys->entries) {
            return;
        }
        found->places[i] = (uint8_t)place;
    }
    found->count = (uint8_t)count;
    found->keys = keys;
}

/* The values of an instance without a dict, and how many are set; NULL if it has a dict. */
#if PY_VERSION_HEX >= 0x030D0000
typedef struct {
    uint8_t capacity;
    uint8_t size;
    uint8_t embedded;
    uint8_t valid;
    PyObject *values[1];
} PsValues;

static inline PyObject **ps_values_of(PyObject *instance, uint8_t **size, uint8_t **order) {
    PsValues *held = (PsValues *)((char *)instance + sizeof(PyObject));
    if (!(Py_TYPE(instance)->tp_flags & Py_TPFLAGS_INLINE_VALUES) ||
        ((PyObject **)instance)[-3] != NULL || !held->valid) {
        return NULL;
    }
    *size = &held->size;
    *order = (uint8_t *)&held->values[held->capacity] + held->size;
    return held->values;
}
#else
static inline PyObject **ps_values_of(PyObject *instance, uint8_t **size, uint8_t **order) {
#if PY_VERSION_HEX >= 0x030C0000
    char *tagged = ((char **)instance)[-3];
    PyObject **values = (uintptr_t)tagged & 1 ? (PyObject **)(tagged + 1) : NULL;
#else
    PyObject **values = ((PyObject ***)instance)[-4];
#endif
    if (values != NULL) {
        *size = (uint8_t *)values - 2;
        *order = *size - **size - 1;
    }
    return values;
}
#endif

/* Return the values of an instance with exactly these attributes; NULL if that is not known. */
static inline PyObject **ps_all_values(const PsPlaces *places, PyObject *instance) {
    uint8_t *size, *order;
    PyObject **values;
    if (places->keys == NULL || places->keys != ps_keys_of(Py_TYPE(instance))) {
        return NULL;
    }
    values = ps_values_of(instance, &size, &order);
    return values != NULL && *size == places->count ? values : NULL;
}

/* Return whether the attributes from `ps_all_values` were set in the order of the places. */
static inline int ps_in_order(const PsPlaces *places, PyObject *instance) {
    uint8_t *size, *order;
    uint8_t i;
    if (ps_values_of(instance, &size, &order) == NULL) {
        return 0;
    }
    for (i = 0; i < places->count; i++) {
#if PY_VERSION_HEX >= 0x030D0000
        const uint8_t place = order[i - *size];
#else
        const uint8_t place = order[*size - i];
#endif
        if (place != places->places[i]) {
            return 0;
        }
    }
    return 1;
}

/* Set a missing attribute of a new instance, stealing the value; return 0 if impossible. */
static inline int ps_set_value_at(PyObject *instance, uint8_t place, PyObject *value) {
    uint8_t *size, *order;
    PyObject **values = ps_values_of(instance, &size, &order);
    if (values == NULL || values[place] != NULL) {
        return 0;
    }
    values[place] = value;
    *order = place;
    ++*size;
    return 1;
}

static inline int ps_set_value(const PsPlaces *places, PyObject *instance, Py_ssize_t i,
                               PyObject *value) {
    return ps_set_value_at(instance, places->places[i], value);
}

/* Return the number of attributes of an instance without a dict; -1 if it has one. */
static inline int ps_value_count(PyObject *instance) {
    uint8_t *size, *order;
    return ps_values_of(instance, &size, &order) == NULL ? -1 : *size;
}

/* Return the i-th value set in an instance without a dict, borrowed, and its place. */
static inline PyObject *ps_value_set(PyObject *instance, int i, uint8_t *place) {
    uint8_t *size, *order;
    PyObject **values = ps_values_of(instance, &size, &order);
#if PY_VERSION_HEX >= 0x030D0000
    *place = order[i - *size];
#else
    *place = order[*size - i];
#endif
    return values[*place];
}

#else

static inline int ps_may_have_values(PyTypeObject *cls) {
    (void)cls;
    return 0;
}

static inline int ps_set_value_at(PyObject *instance, uint8_t place, PyObject *value) {
    (void)instance, (void)place, (void)value;
    return 0;
}

static inline int ps_value_count(PyObject *instance) {
    (void)instance;
    return -1;
}

static inline PyObject *ps_value_set(PyObject *instance, int i, uint8_t *place) {
    (void)instance, (void)i, (void)place;
    return NULL;
}

static inline void ps_find_places(PsPlaces *found, PyTypeObject *cls, PyObject *names) {
    (void)cls, (void)names;
    found->keys = NULL;
}

static inline PyObject **ps_all_values(const PsPlaces *places, PyObject *instance) {
    (void)places, (void)instance;
    return NULL;
}

static inline int ps_in_order(const PsPlaces *places, PyObject *instance) {
    (void)places, (void)instance;
    return 0;
}

static inline int ps_set_value(const PsPlaces *places, PyObject *instance, Py_ssize_t i,
                               PyObject *value) {
    (void)places, (void)instance, (void)i, (void)value;
    return 0;
}

#endif

/* Return whether an instance of a subclass of a builtin class has attributes; creates no dict. */
static inline int ps_has_attributes(PyObject *instance) {
    PyObject **place;
    if (Py_TYPE(instance)->tp_dictoffset == 0) {
        return 0;
    }
    if (ps_may_have_values(Py_TYPE(instance))) {
        const int count = ps_value_count(instance);
        if (count >= 0) {
            return count > 0;
        }
    }
    place = _PyObject_GetDictPtr(instance);
    return place != NULL && *place != NULL && PyDict_GET_SIZE(*place) > 0;
}

/* Return the offset of the slot of a name, however the class accesses it; 0 if it is no slot. */
static inline Py_ssize_t ps_member_offset(PyTypeObject *cls, PyObject *name) {
    PyObject *mro = cls->tp_mro;
    Py_ssize_t i;
    if (mro == NULL) {
        return 0;
    }
    for (i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        PyObject *found = base->tp_flags & Py_TPFLAGS_HEAPTYPE
                              ? PyDict_GetItemWithError(base->tp_dict, name)
                              : NULL;
        if (found != NULL) {
            PyMemberDef *member;
            if (Py_TYPE(found) != &PyMemberDescr_Type) {
                return 0;
            }
            member = ((PyMemberDescrObject *)found)->d_member;
            return member->type == T_OBJECT_EX && !(member->flags & READONLY) ? member->offset : 0;
        }
    }
    return 0;
}

/* Return the offset of a plain slot in instances of a class; 0 for anything else. */
static inline Py_ssize_t ps_slot_offset(PyTypeObject *cls, PyObject *name) {
    return cls->tp_getattro == PyObject_GenericGetAttr ? ps_member_offset(cls, name) : 0;
}

#endif
