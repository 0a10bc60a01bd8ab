#!/usr/bin/env bash
# Runs once, in the postgres image, after sql/source.sql: the replication role's password from the environment.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$CDC_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  <<<"alter role cdc password :'password'"
