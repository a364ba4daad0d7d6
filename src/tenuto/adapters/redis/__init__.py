"""Dispatch through Redis Streams: hints of ready rows, for any number of coordinators. Needs the package `redis`."""
