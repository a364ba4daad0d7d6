"""CEL behind one typed facade. The only importer of `cel_expr_python`."""
