-- Hypertables by the evaluation's start: one chunk holds whole evaluations. A database that was
-- plain before loses its stand-in views and keeps its rows.

DROP VIEW IF EXISTS trend, query_trend, span_trend;

SELECT create_hypertable(
    'span', by_range('ts', INTERVAL '1 day'),
    create_default_indexes => false, migrate_data => true, if_not_exists => true
);
SELECT create_hypertable(
    'query', by_range('ts', INTERVAL '7 days'),
    create_default_indexes => false, migrate_data => true, if_not_exists => true
);
