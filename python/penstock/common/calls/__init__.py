"""Checks of a program's calls: arguments, names, and methods that do not exist."""
