"""The routes of REST, by resource."""
