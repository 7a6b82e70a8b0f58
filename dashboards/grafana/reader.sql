-- A role that reads everything of mlscope's database and changes nothing: for Grafana's data source.
-- Once, as a superuser, with the role that owns the tables:
--     psql ADDRESS -v owner=mlscope -v password=SECRET -f reader.sql

CREATE ROLE mlscope_reader LOGIN PASSWORD :'password';
GRANT USAGE ON SCHEMA public TO mlscope_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO mlscope_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public GRANT SELECT ON TABLES TO mlscope_reader;
ALTER ROLE mlscope_reader SET default_transaction_read_only = on;
ALTER ROLE mlscope_reader SET statement_timeout = '30s';
