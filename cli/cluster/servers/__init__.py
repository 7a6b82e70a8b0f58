"""The two servers of a local cluster: nats-server and PostgreSQL."""
