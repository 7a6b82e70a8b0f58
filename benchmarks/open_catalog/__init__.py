"""Which models of the catalog open and answer on this machine, and why the others do not."""
