from typing import final

from penstock._native.basic_codecs import ConvertedNode

@final
class TimestampNode(ConvertedNode): ...
