"""The base of all messages of the control plane."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of all messages: tagged with the name of its class."""
