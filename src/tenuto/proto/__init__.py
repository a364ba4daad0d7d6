"""Messages and services as protobuf has them, made from `proto/` by scripts/gen_proto.py. Not a place for code."""
