"""Coordinators of sources: enumerators, the splits that they assign, watermark alignment."""
