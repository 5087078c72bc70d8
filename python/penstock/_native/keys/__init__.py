"""Keys of records: their identity, their hashes, and the channels of their owners."""
