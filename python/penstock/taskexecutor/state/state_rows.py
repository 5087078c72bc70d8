"""Keyed state as rows of an ordered store: `docs/formats/checkpoint.md` has the byte table.

``penstock._native.state.state_rows`` is the native twin; take both from
``penstock.taskexecutor.state.heap``.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Protocol

from penstock.errors import IllegalStateError
from penstock.graph.key_groups import key_group
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.dynamic_codec import encode_dynamic
from penstock.serialization.pure.key_hash import key_hash
from penstock.serialization.pure.keys import CanonicalKey, key_of

_U16: Final = struct.Struct(">H")

#: Prefixes of the bytes of a key: decodable, or only comparable, where the value begins with the
#: key itself.
READABLE: Final = 0
FORM: Final = 1


class NamespaceContents(Protocol):
    """Contents of a namespace in memory; see `CopyOnWriteStateMap`."""

    namespace: Any
    is_stored: bool
    tail: bytes | None
    original: bytes


class StateRows:
    """Encodes the entries of one operator's state as rows."""

    def __init__(self, kind: str | None, max_parallelism: int, key_groups: range) -> None:
        """Create an encoder.

        Args:
            kind: Kind of the declared type of keys, which their hash depends on, or None.
            max_parallelism: Number of all key groups.
            key_groups: The key groups that keys may belong to.
        """
        self._hash_of = key_hash(kind)
        self._max_parallelism = max_parallelism
        self._key_groups = key_groups

    def key(self, tail: bytes, identity: object) -> bytes:
        """Return the key of a row.

        Args:
            tail: The bytes of the state and the namespace.
            identity: The identity of the key in state.

        Raises:
            IllegalStateError: The key is in none of the key groups.
            SerializationError: It cannot be serialised.
        """
        key = key_of(identity)
        group = key_group(self._hash_of(key), self._max_parallelism)
        if group not in self._key_groups:
            raise IllegalStateError(
                f"a key of group {group} is in the state of a subtask that has the groups "
                f"{self._key_groups.start} to {self._key_groups.stop - 1}"
            )
        out = bytearray(_U16.pack(group) + tail)
        if type(identity) is CanonicalKey:
            # By its type, so that keys of one form share a row: other forms are not decodable.
            out.append(READABLE if type(key) is float or type(key) is bool else FORM)
            out += form_of(key)
        else:
            out.append(READABLE)
            encode_dynamic(out, key)
        return bytes(out)

    def row(
        self, contents: NamespaceContents, identity: object, value: object
    ) -> tuple[bytes, bytes]:
        """Return key and value of an entry's row.

        Args:
            contents: The namespace; its ``tail`` and ``original`` are set.
            identity: The identity of the key in state.
            value: The value.

        Raises:
            IllegalStateError: The key is in none of the key groups.
            SerializationError: Key or value cannot be serialised.
        """
        assert contents.tail is not None, "the store has set it"
        key = self.key(contents.tail, identity)
        out = bytearray(contents.original)
        if key[2 + len(contents.tail)] == FORM:
            encode_dynamic(out, key_of(identity))
        encode_dynamic(out, value)
        return key, bytes(out)
