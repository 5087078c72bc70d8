"""Records between operators and buffers: writer, reading loop, sorter, C functions."""
