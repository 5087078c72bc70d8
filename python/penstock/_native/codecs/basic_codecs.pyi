from typing import Self, final

from typing_extensions import disjoint_base

from penstock._native.codecs.codec_node import CodecNode
from penstock.serialization.type_schema import TypeSchema

@final
class StringNode(CodecNode): ...

@final
class BooleanNode(CodecNode): ...

@final
class ByteNode(CodecNode): ...

@final
class ShortNode(CodecNode): ...

@final
class IntNode(CodecNode): ...

@final
class LongNode(CodecNode): ...

@final
class BigIntNode(CodecNode): ...

@final
class FloatNode(CodecNode): ...

@final
class DoubleNode(CodecNode): ...

@final
class BytesNode(CodecNode): ...

@disjoint_base
class ConvertedNode(CodecNode):
    def __new__(cls, schema: TypeSchema, wire: CodecNode) -> Self: ...
