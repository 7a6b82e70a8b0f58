-- Timelines of runs as they are drawn, so that the first view of a long run need not make them.

CREATE TABLE timeline (
    run_key int8 PRIMARY KEY,
    evaluation text NOT NULL,
    format int4 NOT NULL,
    stored int8 NOT NULL,
    description jsonb NOT NULL,
    bytes int8 NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE timeline IS 'Runs prepared for drawing; made again where absent or of another format.';
COMMENT ON COLUMN timeline.run_key IS 'The attempt.';
COMMENT ON COLUMN timeline.evaluation IS 'The evaluation''s id.';
COMMENT ON COLUMN timeline.format IS 'The version of the parts'' content.';
COMMENT ON COLUMN timeline.stored IS 'Spans stored when it was made; with more it is made again.';
COMMENT ON COLUMN timeline.description IS 'Lanes, range of time, and widths of the resolutions.';
COMMENT ON COLUMN timeline.bytes IS 'Size of all parts.';
COMMENT ON COLUMN timeline.made_at IS 'When it was made; the oldest are deleted first.';

CREATE TABLE timeline_part (
    run_key int8 NOT NULL REFERENCES timeline ON DELETE CASCADE,
    resolution int2 NOT NULL,
    part int4 NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (run_key, resolution, part)
);
ALTER TABLE timeline_part ALTER content SET STORAGE EXTERNAL;
COMMENT ON TABLE timeline_part IS 'Arrow files of timelines, compressed, in parts.';
COMMENT ON COLUMN timeline_part.run_key IS 'The attempt.';
COMMENT ON COLUMN timeline_part.resolution IS '0: single spans; 1: tiles of the whole run.';
COMMENT ON COLUMN timeline_part.part IS 'Its place in the file, from 0.';
COMMENT ON COLUMN timeline_part.content IS 'The part.';
