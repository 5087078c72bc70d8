"""Access to external systems: threads that wait for a server, and persistent connections."""
