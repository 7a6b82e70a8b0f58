-- What a span is of, and what joins a launch with the work it started on a device.

ALTER TABLE span ADD COLUMN kind int2 NOT NULL DEFAULT 0;
ALTER TABLE span ADD COLUMN correlation int8;
COMMENT ON COLUMN span.kind IS
'0 host, 1 launch, 2 kernel, 3 copy, 4 memory set, 5 marker, 6 sample of a series.';
COMMENT ON COLUMN span.correlation IS 'Shared by a launch and what it started; null without.';
COMMENT ON COLUMN span.thread IS 'The thread; of work on a device its stream.';

CREATE OR REPLACE VIEW spans AS
SELECT
    run.evaluation,
    run.run,
    run.attempt,
    run.agent,
    run.model,
    span.span,
    span.parent,
    span.level,
    span_name.text AS name,
    span.start_ns,
    span.duration_ns,
    span.thread,
    span.query,
    span.block,
    span.attributes,
    span.ts,
    span.run_key,
    span.kind,
    span.correlation
FROM span
JOIN run ON run.run_key = span.run_key AND run.ts = span.ts
JOIN span_name ON span_name.run_key = span.run_key AND span_name.name = span.name;
