"""The older reader and writer interfaces of the data plane, for programs that use them."""
