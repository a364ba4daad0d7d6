"""How anything here runs: services, logging, the one door of results. Knows nothing of workflows."""
