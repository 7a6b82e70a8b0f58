"""Containers that the agent's owner allows it to start: found, started for a session, removed."""
