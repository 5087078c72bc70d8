"""Jobs whose workers, drivers and servers fail; a package, so that no module shadows another."""
