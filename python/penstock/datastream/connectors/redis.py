"""RedisSink and RedisLookup: commands to Redis, and answers from it (beyond PyFlink)."""

from penstock.connectors.redis.sink import RedisLookup, RedisSink

__all__ = ["RedisLookup", "RedisSink"]
