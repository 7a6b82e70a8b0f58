"""SIGKILL trials: whatever dies in mid-evaluation, what was accepted ends analyzed, once."""
