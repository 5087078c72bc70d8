"""Relational plans: nodes, scalar expressions, name resolution and translation to operators."""
