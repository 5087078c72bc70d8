from typing import final

from penstock._native.codec_node import CodecNode

@final
class DynamicNode(CodecNode): ...
