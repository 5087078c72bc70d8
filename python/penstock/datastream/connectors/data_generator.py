"""DataGeneratorSource: records that a function makes of numbers (beyond PyFlink)."""

from penstock.connectors.datagen.source import (
    DataGeneratorSource,
    GeneratorFunction,
    RateLimiterStrategy,
)

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]
