"""Values as bytes: typed codecs, and those of values of undeclared type."""
