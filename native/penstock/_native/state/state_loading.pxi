# Entries that a snapshot serialised, inserted into a table; a part of state_table.pyx.

cdef enum:
    ENTRY = 1
    NAMESPACE = 2

# The number of entries read before they are inserted, so that their places are prefetched.
cdef enum:
    LOADED_AT_ONCE = 32


cdef struct Loaded:
    PsEntry entries[LOADED_AT_ONCE]
    int32_t count


cdef int load_entries(
    StateTable table, const uint8_t *data, Py_ssize_t size, KeyReader keys
) except -1:
    """Insert the entries that a snapshot serialised."""
    cdef Reader reader
    cdef CopyOnWriteStateMap contents = table.map(None)
    cdef bint has_timers = table.kind == "timer"
    cdef bint has_numbers = not has_timers and (keys.plain is int or keys.other is int)
    cdef Loaded loaded
    cdef uint8_t tag
    loaded.count = 0
    reader.position = data
    reader.end = data + size
    reader.depth = 0
    try:
        while reader.position < reader.end:
            tag = get8(&reader)
            if tag == NAMESPACE:
                put_loaded(contents, &loaded)
                contents = table.map(decode_dynamic(&reader))
                continue
            if tag != ENTRY:
                raise CorruptStreamError(f"0x{tag:02x} where an entry of state begins")
            if has_timers:
                load_timer(&reader, contents, keys)
                continue
            read_entry(&reader, contents, keys, has_numbers, &loaded)
            if loaded.count == LOADED_AT_ONCE:
                put_loaded(contents, &loaded)
        put_loaded(contents, &loaded)
    finally:
        release_loaded(&loaded)
    return 0


cdef int load_timer(Reader *reader, CopyOnWriteStateMap contents, KeyReader keys) except -1:
    cdef object key = read_identity(reader, keys)
    cdef object namespace = decode_dynamic(reader)
    is_key = namespace is None and type(key) is not tuple
    return contents.put(key if is_key else (key, namespace), 1)


cdef int read_entry(
    Reader *reader, CopyOnWriteStateMap contents, KeyReader keys, bint has_numbers, Loaded *loaded
) except -1:
    """Read an entry for ``put_loaded``; its place is prefetched meanwhile."""
    cdef PsEntry *entry = &loaded.entries[loaded.count]
    cdef object identity
    if not (has_numbers and read_word(reader, &entry.key)):
        identity = read_identity(reader, keys)
        entry.key = ps_pack(<PyObject *>identity)
        ps_hold(entry.key)
    entry.value = 0
    loaded.count += 1
    if not read_word(reader, &entry.value):
        entry.value = held_word(decode_dynamic(reader))
    ps_hash_word(entry.key, &entry.hash)
    ps_prefetch(&contents.map, entry.hash)
    return 0


cdef int put_loaded(CopyOnWriteStateMap contents, Loaded *loaded) except -1:
    """Insert the entries that were read."""
    cdef PsEntry *entry
    cdef int32_t position, i
    for i in range(loaded.count):
        entry = &loaded.entries[i]
        position = ps_find(&contents.map, entry.key, entry.hash)
        if position < 0:
            contents.inserted(entry.key, entry.hash, entry.value, True)
        else:
            contents.replace(position, entry.value)
    release_loaded(loaded)
    return 0


cdef void release_loaded(Loaded *loaded) noexcept:
    while loaded.count > 0:
        loaded.count -= 1
        ps_release(loaded.entries[loaded.count].key)
        ps_release(loaded.entries[loaded.count].value)


cdef inline bint read_word(Reader *reader, PsWord *word) except -1:
    """Read an integer that an entry holds itself; return False, reading nothing, for others."""
    cdef const uint8_t *start = reader.position
    cdef int64_t number
    if not read_number(reader, &number):
        return False
    if not -PS_MOST <= number < PS_MOST:
        reader.position = start
        return False
    word[0] = ps_integer_word(number)
    return True


cdef inline PsWord held_word(object value) noexcept:
    cdef PsWord word = ps_pack(<PyObject *>value)
    ps_hold(word)
    return word


cdef inline object read_identity(Reader *reader, KeyReader keys):
    cdef object key = decode_dynamic(reader)
    if type(key) is keys.plain or type(key) is keys.other:
        return key
    return keys.identity(key)
