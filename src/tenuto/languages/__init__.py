"""Language servers, which run the code of `code` nodes, and the client that speaks to one. Know nothing of runs."""
