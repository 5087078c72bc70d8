"""Jobs whose parallelism changes: on request, or with the available slots."""
