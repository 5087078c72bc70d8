"""Built-in functions: a table of name, argument types, result type and kernel."""
