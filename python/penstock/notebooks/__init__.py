"""Jobs in notebooks."""
