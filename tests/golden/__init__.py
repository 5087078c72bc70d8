"""Savepoints and bytes of released versions, and the programs that wrote them."""
