"""The operators of a task, one module for each family; ``registry`` finds them by kind."""
