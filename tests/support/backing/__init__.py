"""Real services for the tests, started by the tests themselves: PostgreSQL, Redis, PgBouncer, a failing proxy."""
