"""SQL and the Table API, with PyFlink's names."""
