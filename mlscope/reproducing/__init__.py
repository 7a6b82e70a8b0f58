"""Reference logs: an evaluation as one file, its request again, and what differs then. Pure."""
