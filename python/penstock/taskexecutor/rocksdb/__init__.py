"""Keyed state in RocksDB, with a cache of decoded values in front; only here rocksdict is used."""
