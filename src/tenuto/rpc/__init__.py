"""The workers' gateway over gRPC: a server in front of a `TaskGateway`, and a client that is one."""
