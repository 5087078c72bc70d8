"""JSON: objects as rows, and rows as objects."""

from penstock.common import typeinfo as typeinfo
from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.common.typeinfo import TypeInformation as TypeInformation
from penstock.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
