"""Records in buffers: the twin of `rust/network/src/framing`."""
