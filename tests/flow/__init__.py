"""End to end on a real local cluster: what a user may do, and what must not hurt."""
