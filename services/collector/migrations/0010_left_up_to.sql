-- Up to which message of each stream batches left that no backup had.

CREATE TABLE left_up_to (
    stream text PRIMARY KEY,
    sequence int8 NOT NULL
);
COMMENT ON TABLE left_up_to IS
'Up to which message of each stream of batches those left to make room that no backup had.';
COMMENT ON COLUMN left_up_to.stream IS 'The stream: TRACES or QUERIES.';
COMMENT ON COLUMN left_up_to.sequence IS 'The number of the last message that left.';
