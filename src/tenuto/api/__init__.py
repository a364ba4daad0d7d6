"""REST: the engine's verbs and documents over HTTP. Knows FastAPI; no rules of workflows."""
