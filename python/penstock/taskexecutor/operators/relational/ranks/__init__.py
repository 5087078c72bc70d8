"""The first rows of each partition, and one row of each key."""
