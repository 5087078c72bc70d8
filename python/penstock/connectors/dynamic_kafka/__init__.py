"""Streams that several Kafka clusters have parts of; needs the extra ``penstock-engine[kafka]``."""
