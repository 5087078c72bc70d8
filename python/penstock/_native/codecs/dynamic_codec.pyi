from typing import final

from penstock._native.codecs.codec_node import CodecNode

@final
class DynamicNode(CodecNode): ...
