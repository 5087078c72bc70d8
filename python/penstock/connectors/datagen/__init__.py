"""Records generated from numbers, at a limited rate if required."""
