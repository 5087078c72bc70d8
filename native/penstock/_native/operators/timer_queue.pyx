"""Timers in the order of their time, the native twin of ``compiled.timer_queue``."""

from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc

from penstock._native.state.state_map cimport (
    PsEntry, PsWord, ps_find, ps_hash_word, ps_integer, ps_integer_word, ps_pack, ps_release,
    ps_unpack,
)
from penstock._native.state.state_table cimport CopyOnWriteStateMap, StateTable
from penstock._native.wire.failure cimport fail_memory

from penstock.errors import IllegalStateError

cdef extern from *:
    void __builtin_prefetch(const void *place) noexcept

cdef enum:
    TIMERS_OF_A_LINE = 4    # of the cache


cdef inline void fetch(const PsTimer *timers, Py_ssize_t index, Py_ssize_t count) noexcept:
    """Prefetch timers into the cache; there may be fewer than ``count``."""
    while count > 0:
        __builtin_prefetch(&timers[index])
        index += TIMERS_OF_A_LINE
        count -= TIMERS_OF_A_LINE


cdef inline object object_of(PsWord word):
    cdef PyObject *made = ps_unpack(word)
    cdef object value = <object>made
    Py_DECREF(value)
    return value


cdef inline object timer_of(object key, object namespace):
    return key if namespace is None and type(key) is not tuple else (key, namespace)


cdef class TimerHeap:
    """The heap of Flink's ``HeapPriorityQueue``; see the pure twin."""

    def __cinit__(self, StateTable table not None):
        self.table = table

    def __dealloc__(self):
        free(self.timers)

    cpdef int push(self, long long timestamp, CopyOnWriteStateMap contents, object key) except -1:
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        cdef int32_t position = contents.position_of(word, &hash)
        if position < 0:
            raise IllegalStateError(f"state {self.table.name!r} has no entry of {key!r}")
        self.reserve()
        self.put(timestamp, contents, position)
        return 0

    def entries_until(self, long long limit):
        """Yield pairs of key and value up to a time, in order; see the pure twin."""
        cdef PsTimer timer
        cdef CopyOnWriteStateMap contents
        cdef int32_t position
        while self.count > 0 and self.timers[1].time <= limit:
            timer = self.timers[1]
            self.take_away(1)
            contents = <CopyOnWriteStateMap>self.table.slots[timer.waiting.place.slot]
            position = timer.waiting.place.position
            yield object_of(contents.entry(position).key), contents.at(position)

    cdef int reserve(self) except -1:
        """Reserve room for one more timer."""
        cdef Py_ssize_t wanted
        cdef PsTimer *timers
        if self.count + 1 < self.capacity:
            return 0
        wanted = self.capacity + self.capacity // 2 + 8
        timers = <PsTimer *>realloc(self.timers, wanted * sizeof(PsTimer))
        if timers == NULL:
            return fail_memory()
        self.timers = timers
        self.capacity = wanted
        return 0

    cdef void put(self, int64_t timestamp, CopyOnWriteStateMap contents, int32_t position) noexcept:
        """Add a timer, for which room is reserved."""
        cdef PsTimer timer
        timer.time = timestamp
        timer.waiting.place.slot = <int32_t>contents.slot
        timer.waiting.place.position = position
        self.count += 1
        self.sift_up(self.count, timer)

    cdef inline PsEntry *entry(self, PsTimer timer) noexcept:
        cdef PyObject *contents = PyList_GET_ITEM(self.table.slots, timer.waiting.place.slot)
        return &(<CopyOnWriteStateMap>contents).map.entries[timer.waiting.place.position]

    cdef void sift_up(self, Py_ssize_t index, PsTimer timer) noexcept:
        """Place a timer at a free index, or at an ancestor of it."""
        cdef PsTimer *timers = self.timers
        cdef Py_ssize_t lowest = index
        while index > 1 and timer.time < timers[index >> 1].time:
            timers[index] = timers[index >> 1]
            index >>= 1
        timers[index] = timer
        if self.is_indexed:
            self.note_places(index, lowest)

    cdef Py_ssize_t sift_down(self, Py_ssize_t index, PsTimer timer) noexcept:
        """Place a timer at a free index, or at a descendant of it; return the index.

        The free place first moves down to the bottom, where the last timer usually belongs, and up
        again from there: it ends where it would on the way down.  It moves down two levels at once:
        the earlier child cannot be predicted, so the code avoids branches and compares the children
        of both without waiting.  The next candidates are prefetched meanwhile: the work since the
        last descent has evicted most of them from the cache.
        """
        cdef PsTimer *timers = self.timers
        cdef Py_ssize_t highest = index
        cdef Py_ssize_t count = self.count
        cdef PsTimer *children
        cdef PsTimer *grandchildren
        cdef Py_ssize_t child, of_first, of_second
        # If two children have the same time, the first one moves up.
        while (index << 2) + 3 <= count:
            fetch(timers, index << 3, 8)
            fetch(timers, index << 4, 16)
            children = &timers[index << 1]
            grandchildren = &timers[index << 2]
            child = children[1].time < children[0].time
            of_first = grandchildren[1].time < grandchildren[0].time
            of_second = 2 + (grandchildren[3].time < grandchildren[2].time)
            of_first ^= (of_first ^ of_second) & -child
            timers[index] = children[child]
            children[child] = grandchildren[of_first]
            index = (index << 2) + of_first
        child = index << 1
        while child <= count:
            if child < count:
                child += timers[child + 1].time < timers[child].time
            timers[index] = timers[child]
            index = child
            child <<= 1
        while index > highest and timers[index >> 1].time >= timer.time:
            timers[index] = timers[index >> 1]
            index >>= 1
        timers[index] = timer
        if self.is_indexed:
            self.note_places(highest, index)
        return index

    cdef void note_places(self, Py_ssize_t highest, Py_ssize_t lowest) noexcept:
        """Store the heap positions of the timers between two places in their entries."""
        while lowest >= highest:
            self.entry(self.timers[lowest]).value = ps_integer_word(lowest)
            lowest >>= 1

    cdef void take_away(self, Py_ssize_t index) noexcept:
        """Remove a timer: the last one replaces it and moves from there."""
        cdef PsTimer last = self.timers[self.count]
        self.count -= 1
        if index <= self.count and self.sift_down(index, last) == index:
            self.sift_up(index, last)

    def __len__(self):
        return self.count


cdef class TimerQueue(TimerHeap):
    """The timers of one clock of an operator; see the pure twin.

    Only deletions need a timer's position in the heap.  The first deletion stores the positions of
    all timers in their entries; storing ends once as many timers have fired as are left.
    """

    def take_over(self):
        """Rebuild the heap from the restored table."""
        cdef CopyOnWriteStateMap contents
        cdef int32_t position
        self.count = 0
        self.is_indexed = False
        for contents in self.table.namespaces():
            if contents.namespace is None:
                continue
            for position in range(contents.map.used):
                if contents.map.entries[position].key != 0:
                    self.reserve()
                    self.put(contents.namespace, contents, position)

    cdef CopyOnWriteStateMap contents_of(self, long long timestamp):
        """Return the timers of a time."""
        self.last = self.table.map(timestamp)
        self.last_time = timestamp
        if self.last.slot > INT32_MAX:
            raise OverflowError("an operator has timers of 2^31 times")
        return self.last

    cpdef bint add(self, long long timestamp, object key, object namespace) except -1:
        cdef CopyOnWriteStateMap contents = self.last
        cdef int32_t position
        if contents is None or timestamp != self.last_time:
            contents = self.contents_of(timestamp)
        self.reserve()
        position = contents.add_key(timer_of(key, namespace))
        if position < 0:
            return False
        self.put(timestamp, contents, position)
        return True

    cpdef bint remove(self, long long timestamp, object key, object namespace) except -1:
        cdef CopyOnWriteStateMap contents = self.table.maps.get(timestamp)
        cdef object identity = timer_of(key, namespace)
        cdef PsWord word = ps_pack(<PyObject *>identity)
        cdef uint32_t hash
        cdef int32_t position
        cdef Py_ssize_t index
        if contents is None:
            return False
        ps_hash_word(word, &hash)
        position = ps_find(&contents.map, word, hash)
        if position < 0:
            return False
        self.make_index()
        index = ps_integer(contents.map.entries[position].value)
        self.take_away(index)
        self.forget(contents, position)
        return True

    cdef int make_index(self) except -1:
        """Store each timer's heap position in its entry."""
        cdef Py_ssize_t index
        self.unused = 0
        if not self.is_indexed:
            for index in range(1, self.count + 1):
                self.entry(self.timers[index]).value = ps_integer_word(index)
            self.is_indexed = True
        return 0

    cdef int forget(self, CopyOnWriteStateMap contents, int32_t position) except -1:
        """Remove the entry of a timer that has left the heap."""
        cdef PsEntry taken
        contents.take_out(position, &taken)
        if contents.map.count == 0:
            if contents is self.last:
                self.last = None
            self.table.drop(contents)
        # Last, since it may run user code.
        ps_release(taken.key)
        return 0

    cpdef object earliest(self):
        return self.timers[1].time if self.count > 0 else None

    cpdef bint take(self, long long limit) except -1:
        cdef PsTimer timer
        cdef CopyOnWriteStateMap contents
        cdef object identity
        if self.count == 0 or self.timers[1].time > limit:
            return False
        timer = self.timers[1]
        self.take_away(1)
        if self.count > 0:
            # The next timer's entry, which was added long ago.
            __builtin_prefetch(self.entry(self.timers[1]))
        if self.is_indexed:
            self.unused += 1
            self.is_indexed = self.unused <= self.count
        contents = <CopyOnWriteStateMap>self.table.slots[timer.waiting.place.slot]
        identity = object_of(contents.map.entries[timer.waiting.place.position].key)
        self.forget(contents, timer.waiting.place.position)
        self.time = timer.time
        if type(identity) is tuple:
            self.key, self.namespace = (<tuple>identity)[0], (<tuple>identity)[1]
        else:
            self.key, self.namespace = identity, None
        return True
