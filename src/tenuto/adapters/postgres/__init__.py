"""PostgreSQL as the engine of the SQL store, shared by many processes."""
