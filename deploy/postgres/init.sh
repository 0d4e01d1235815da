#!/bin/sh
# PostgreSQL's image runs this once, when it makes its data. It makes the role and the database of
# the URL in HOOKLADDER_URL_FILE, and the tables of the outbox in that database.
set -eu

url=$(cat "$HOOKLADDER_URL_FILE")
login=${url#*://}
login=${login%%@*}

psql -qX -v ON_ERROR_STOP=1 -U postgres -d postgres -v password="${login#*:}" <<'SQL'
create role hookladder login password :'password';
create database hookladder owner hookladder;
SQL
{ echo "set role hookladder;"; cat "${OUTBOX_SCHEMA:-/schema/outbox.sql}"; } | psql -qX -1 -v ON_ERROR_STOP=1 -U postgres -d hookladder
