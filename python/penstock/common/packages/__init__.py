"""Packages beyond penstock: those of extras, of stores, and jars, which need none."""
