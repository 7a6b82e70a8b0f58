"""The local cluster: nats-server, PostgreSQL and the six services as processes of one machine."""
