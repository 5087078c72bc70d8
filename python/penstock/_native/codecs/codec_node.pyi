from typing import Any, Self

from typing_extensions import disjoint_base

from penstock.serialization.type_schema import TypeSchema

@disjoint_base
class CodecNode:
    @property
    def schema(self) -> TypeSchema: ...
    @property
    def name(self) -> str: ...
    def __new__(cls, schema: TypeSchema, *args: Any) -> Self: ...
