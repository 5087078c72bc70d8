/* Calls of the class of rows, for row.pyx. */
#ifndef PENSTOCK_ROW_CALL_H
#define PENSTOCK_ROW_CALL_H

#include <Python.h>

typedef PyObject *(*PsCall)(PyObject *cls, PyObject **arguments, size_t given, PyObject *keywords);

/* Set the vectorcall of a class; subclasses do not inherit it. */
static inline void ps_set_call(PyTypeObject *cls, PsCall call) {
    cls->tp_vectorcall = (vectorcallfunc)(void (*)(void))call;
}

#endif
