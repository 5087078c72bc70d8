"""jdbc: tables of databases, to scan, to look up and to update."""
