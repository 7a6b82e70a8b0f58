-- Compression, retention and continuous aggregates: TimescaleDB's own licence ('timescale').
-- A server held to the Apache licence keeps hypertables and gets the trends as plain views.

DO $policies$
BEGIN
    IF current_setting('timescaledb.license') <> 'timescale' THEN
        RETURN;
    END IF;
    ALTER TABLE span SET (
        timescaledb.enable_columnstore,
        timescaledb.segmentby = 'run_key',
        timescaledb.orderby = 'start_ns'
    );
    ALTER TABLE query SET (
        timescaledb.enable_columnstore,
        timescaledb.segmentby = 'run_key',
        timescaledb.orderby = 'query'
    );
    CALL add_columnstore_policy('span', after => INTERVAL '1 day', if_not_exists => true);
    CALL add_columnstore_policy('query', after => INTERVAL '7 days', if_not_exists => true);
    PERFORM add_retention_policy('span', INTERVAL '90 days', if_not_exists => true);
    PERFORM add_retention_policy('query', INTERVAL '365 days', if_not_exists => true);
END
$policies$;
