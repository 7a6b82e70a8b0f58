"""Python code from a manifest: run in a process of its own, within limits."""
