"""The frames of the data plane: the twin of `rust/network/src/wire`."""
