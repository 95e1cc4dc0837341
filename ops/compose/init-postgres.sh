#!/usr/bin/env bash
# Runs once, when the database is empty: the role that Sluice connects as, with no more rights than it needs, and the
# publication, which only the tables' owner may make. Tables that the owner adds to `public` later are published and
# readable as they come.
set -euo pipefail
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set=password="$(cat "${SLUICE_PASSWORD_FILE:?}")" --set=database="$POSTGRES_DB" <<'SQL'
create role sluice login replication password :'password';
grant connect on database :"database" to sluice;
grant usage on schema public to sluice;
grant select on all tables in schema public to sluice;
alter default privileges in schema public grant select on tables to sluice;
create publication sluice_shop for tables in schema public;
SQL
