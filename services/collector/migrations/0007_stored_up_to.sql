-- Up to which message the rows of each durable are here: a restored backup says what it lacks.

CREATE TABLE stored_up_to (
    durable text PRIMARY KEY,
    sequence int8 NOT NULL
);
COMMENT ON TABLE stored_up_to IS
'Up to which message of its stream the rows of each durable of the collector are here.';
COMMENT ON COLUMN stored_up_to.durable IS 'The durable: spans, queries or recorder.';
COMMENT ON COLUMN stored_up_to.sequence IS
'The number in the stream of the last message before which none lacks its rows.';
