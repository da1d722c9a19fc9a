"""Private servers for the tests: PostgreSQL, Redis and Docker Engines, on free ports in temporary folders."""
