-- Which runs a backup has, so that it can be said what would be lost with this database.

CREATE TABLE saved_run (
    run_key int8 PRIMARY KEY
);
COMMENT ON TABLE saved_run IS
'Attempts that were settled when a backup was made, which has all of their rows.';
COMMENT ON COLUMN saved_run.run_key IS 'The attempt.';
