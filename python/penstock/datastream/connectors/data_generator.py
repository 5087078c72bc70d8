"""DataGeneratorSource: records that a function computes from numbers (beyond PyFlink)."""

from penstock.connectors.datagen.source import (
    DataGeneratorSource,
    GeneratorFunction,
    RateLimiterStrategy,
)

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]
