"""Messages as bytes: codec, index of messages by name, and faults of malformed messages. Pure."""
