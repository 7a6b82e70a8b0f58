-- Up to which message of each stream a backup has the batches, as messages or as rows.

CREATE TABLE saved_up_to (
    stream text PRIMARY KEY,
    sequence int8 NOT NULL
);
COMMENT ON TABLE saved_up_to IS
'Up to which message of each stream of batches the newest backup has all, as messages or as rows.';
COMMENT ON COLUMN saved_up_to.stream IS 'The stream: TRACES or QUERIES.';
COMMENT ON COLUMN saved_up_to.sequence IS 'The number of the last message in the stream.';
