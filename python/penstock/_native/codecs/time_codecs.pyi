from typing import final

from penstock._native.codecs.basic_codecs import ConvertedNode

@final
class TimestampNode(ConvertedNode): ...
