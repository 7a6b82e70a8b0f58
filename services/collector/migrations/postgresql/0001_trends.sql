-- The continuous aggregates of the TimescaleDB profile as views of the same names.

CREATE VIEW query_trend AS
SELECT
    date_trunc('day', ts, 'UTC') AS day,
    run_key,
    count(*) AS queries,
    count(*) FILTER (WHERE status <> 0) AS failed,
    sum(size)::int8 AS samples,
    min(ended_ns - coalesce(due_ns, issued_ns)) AS least_ns,
    max(ended_ns - coalesce(due_ns, issued_ns)) AS most_ns,
    sum(ended_ns - coalesce(due_ns, issued_ns))::float8 AS sum_ns
FROM query
GROUP BY 1, 2;

CREATE VIEW span_trend AS
SELECT
    date_trunc('day', ts, 'UTC') AS day,
    run_key,
    level,
    name,
    count(*) AS spans,
    min(duration_ns) AS least_ns,
    max(duration_ns) AS most_ns,
    sum(duration_ns)::float8 AS sum_ns
FROM span
GROUP BY 1, 2, 3, 4;
