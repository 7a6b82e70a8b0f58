"""PostgreSQL and TimescaleDB: one connection, the SQL files of schemas, and named statements."""
