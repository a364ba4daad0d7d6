"""Real servers, workers and services under faults, an outside journal, and an auditor who reads both afterwards."""
