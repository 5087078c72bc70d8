"""The older reader and writer interfaces over the data plane, for who programs against them."""
