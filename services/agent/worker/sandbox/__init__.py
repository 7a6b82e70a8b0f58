"""What a worker may reach: its session's files, as a user of its own where its host is root."""
