from typing import Self, final

from typing_extensions import disjoint_base

from penstock._native.codecs.codec_node import CodecNode
from penstock.serialization.type_schema import TypeSchema

@disjoint_base
class FieldsNode(CodecNode):
    def __new__(cls, schema: TypeSchema, *fields: CodecNode) -> Self: ...

@final
class TupleNode(FieldsNode): ...

@final
class RowNode(FieldsNode): ...

@final
class ListNode(CodecNode):
    def __new__(cls, schema: TypeSchema, element: CodecNode) -> Self: ...

@final
class MapNode(CodecNode):
    def __new__(cls, schema: TypeSchema, key: CodecNode, value: CodecNode) -> Self: ...
