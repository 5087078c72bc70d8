"""Options of tables, connectors and formats, and time zones."""
