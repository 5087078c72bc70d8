"""Streams in several Kafka clusters; needs the extra ``penstock-engine[kafka]``."""
