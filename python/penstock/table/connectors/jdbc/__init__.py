"""jdbc: database tables, to scan, to look up and to update."""
