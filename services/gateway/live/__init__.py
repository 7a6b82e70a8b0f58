"""Live streams: what an evaluation reports while it runs, as server-sent events."""
