-- What analyzers write: tables, their rows, and which span lies in which. Each analysis has a view
-- besides, analysis_NAME, with its columns typed and described.

CREATE TABLE analysis (
    evaluation text NOT NULL,
    name text NOT NULL,
    place int4 NOT NULL,
    title text NOT NULL,
    columns jsonb NOT NULL,
    verdict text NOT NULL,
    caveats jsonb NOT NULL,
    digest text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (evaluation, name)
);
COMMENT ON TABLE analysis IS 'Tables of evaluations; their rows are in analysis_row.';
COMMENT ON COLUMN analysis.evaluation IS 'The evaluation''s id.';
COMMENT ON COLUMN analysis.name IS 'The table''s name.';
COMMENT ON COLUMN analysis.place IS 'Its place in a report, from 0.';
COMMENT ON COLUMN analysis.title IS 'Its title.';
COMMENT ON COLUMN analysis.columns IS 'Its columns: name, type, unit, description.';
COMMENT ON COLUMN analysis.verdict IS 'What it says, in one sentence.';
COMMENT ON COLUMN analysis.caveats IS 'What must be read beside it.';
COMMENT ON COLUMN analysis.digest IS 'sha256 of all tables of the evaluation.';
COMMENT ON COLUMN analysis.made_at IS 'When it was made.';

CREATE TABLE analysis_row (
    evaluation text NOT NULL,
    name text NOT NULL,
    ordinal int4 NOT NULL,
    cells jsonb NOT NULL,
    PRIMARY KEY (evaluation, name, ordinal)
);
COMMENT ON TABLE analysis_row IS 'Rows of tables: see the views analysis_NAME.';
COMMENT ON COLUMN analysis_row.evaluation IS 'The evaluation''s id.';
COMMENT ON COLUMN analysis_row.name IS 'The table''s name.';
COMMENT ON COLUMN analysis_row.ordinal IS 'The row''s place, from 0.';
COMMENT ON COLUMN analysis_row.cells IS 'Its cells by column.';

CREATE TABLE span_tree (
    run_key int8 NOT NULL,
    span int8 NOT NULL,
    parent int8,
    layer int8,
    method text NOT NULL,
    PRIMARY KEY (run_key, span)
);
COMMENT ON TABLE span_tree IS 'Which span lies in which, as far as known: what to draw and export.';
COMMENT ON COLUMN span_tree.run_key IS 'The attempt.';
COMMENT ON COLUMN span_tree.span IS 'The span.';
COMMENT ON COLUMN span_tree.parent IS 'The span around it.';
COMMENT ON COLUMN span_tree.layer IS 'The layer span it is or lies in.';
COMMENT ON COLUMN span_tree.method IS 'captured, containment, or none: how the parent is known.';
