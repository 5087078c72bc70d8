from typing import final

from penstock.network.pure.channel_selector import ChannelSelector as ChannelSelector
from penstock.network.pure.channel_selector import make_selector as make_selector

@final
class BroadcastSelector(ChannelSelector): ...

@final
class RoundRobinSelector(ChannelSelector): ...

@final
class ShuffleSelector(ChannelSelector): ...

@final
class KeyGroupSelector(ChannelSelector): ...

@final
class CustomSelector(ChannelSelector): ...
