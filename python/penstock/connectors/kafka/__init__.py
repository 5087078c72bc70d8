"""Kafka as source and sink; needs the extra ``penstock-engine[kafka]``."""
