from typing import Any, Self

from penstock.network.type_schema import TypeSchema

class CodecNode:
    @property
    def schema(self) -> TypeSchema: ...
    @property
    def name(self) -> str: ...
    def __new__(cls, schema: TypeSchema, *args: Any) -> Self: ...
