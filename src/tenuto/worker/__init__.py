"""What executes tasks: leases them through the gateway port, runs them, reports. Never touches the store."""
