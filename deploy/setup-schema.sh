#!/bin/sh
# Makes the two databases of a Temporal server and brings their schemas up to date. May be run again at any time.
# Takes SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD as temporal-sql-tool reads them, and SCHEMA_DIRECTORY.
set -eu

setup() {
  database=$1
  schema=$2
  # Does nothing where the database is there.
  temporal-sql-tool --database "$database" create-database
  # Refused where the tables are there already; the update says so if there is none.
  temporal-sql-tool --database "$database" setup-schema -v 0.0 || echo "$database: has a schema already"
  temporal-sql-tool --database "$database" update-schema -d "$SCHEMA_DIRECTORY/$schema/versioned"
}

setup temporal temporal
setup temporal_visibility visibility
