"""Operators of relational plans: their records are batches of columns with row kinds."""
