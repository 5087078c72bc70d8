"""mongodb: tables as collections."""
