-- A role that changes nothing and reads the rows of evaluations that the whole cluster may see, for
-- Grafana's data source: no private evaluations, and none whose request mlscope has not read.
-- As a superuser, after `mlscope up` or `mlscope provision`, which makes the schema mlscope_reader;
-- again at any time, with the role that owns the tables:
--     psql ADDRESS -v owner=mlscope -v password=SECRET -f reader.sql

DO $$
BEGIN
    IF to_regrole('mlscope_reader') IS NULL THEN
        CREATE ROLE mlscope_reader;
    END IF;
END
$$;
ALTER ROLE mlscope_reader LOGIN PASSWORD :'password';
ALTER ROLE mlscope_reader SET search_path = mlscope_reader, public;
ALTER ROLE mlscope_reader SET default_transaction_read_only = on;
ALTER ROLE mlscope_reader SET statement_timeout = '30s';

-- An older reader.sql granted all tables.
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public REVOKE SELECT ON TABLES FROM mlscope_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM mlscope_reader;

-- Migrations that make the views anew grant them again.
GRANT USAGE ON SCHEMA mlscope_reader TO mlscope_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA mlscope_reader TO mlscope_reader;
