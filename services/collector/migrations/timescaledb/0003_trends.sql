-- Trends across evaluations, kept up to date by the database: a row a run and day. One
-- evaluation's own numbers are the analyzer's; these are for comparing many.

DO $trends$
DECLARE
    kind text := '';
    bucket text := $$date_trunc('day', ts, 'UTC')$$;
BEGIN
    IF current_setting('timescaledb.license') = 'timescale' THEN
        kind := 'MATERIALIZED';
        bucket := $$time_bucket('1 day', ts)$$;
    END IF;
    EXECUTE format(
        'CREATE %s VIEW query_trend %s AS
        SELECT
            %s AS day,
            run_key,
            count(*) AS queries,
            count(*) FILTER (WHERE status <> 0) AS failed,
            sum(size)::int8 AS samples,
            min(ended_ns - coalesce(due_ns, issued_ns)) AS least_ns,
            max(ended_ns - coalesce(due_ns, issued_ns)) AS most_ns,
            sum(ended_ns - coalesce(due_ns, issued_ns))::float8 AS sum_ns
        FROM query
        GROUP BY 1, 2 %s',
        kind,
        CASE kind WHEN '' THEN '' ELSE 'WITH (timescaledb.continuous, timescaledb.materialized_only = false)' END,
        bucket,
        CASE kind WHEN '' THEN '' ELSE 'WITH NO DATA' END
    );
    EXECUTE format(
        'CREATE %s VIEW span_trend %s AS
        SELECT
            %s AS day,
            run_key,
            level,
            name,
            count(*) AS spans,
            min(duration_ns) AS least_ns,
            max(duration_ns) AS most_ns,
            sum(duration_ns)::float8 AS sum_ns
        FROM span
        GROUP BY 1, 2, 3, 4 %s',
        kind,
        CASE kind WHEN '' THEN '' ELSE 'WITH (timescaledb.continuous, timescaledb.materialized_only = false)' END,
        bucket,
        CASE kind WHEN '' THEN '' ELSE 'WITH NO DATA' END
    );
    IF kind = '' THEN
        RETURN;
    END IF;
    PERFORM add_continuous_aggregate_policy(
        'query_trend',
        start_offset => INTERVAL '30 days',
        end_offset => INTERVAL '1 hour',
        schedule_interval => INTERVAL '10 minutes'
    );
    PERFORM add_continuous_aggregate_policy(
        'span_trend',
        start_offset => INTERVAL '30 days',
        end_offset => INTERVAL '1 hour',
        schedule_interval => INTERVAL '10 minutes'
    );
END
$trends$;
