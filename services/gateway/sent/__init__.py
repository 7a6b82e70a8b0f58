"""Files and datasets that a person sends over HTTP: received, looked into, kept for a day."""
