"""Windows of time, of sessions and of counts, and their aggregates."""
