"""The parts of one NATS connection: its client, its key, its reply subjects, its availability."""
