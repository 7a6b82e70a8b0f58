"""Which agents can run a request, which runs they get, and whose turn it is."""
