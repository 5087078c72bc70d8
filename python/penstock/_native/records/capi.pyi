# Offers nothing to Python: see the .pxd of the same name.
