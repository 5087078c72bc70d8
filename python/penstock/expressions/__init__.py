"""What functions compute, as data that can be evaluated without calling them."""
