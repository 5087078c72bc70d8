"""Keyed state in RocksDB behind a cache of decoded values; only this room imports rocksdict."""
