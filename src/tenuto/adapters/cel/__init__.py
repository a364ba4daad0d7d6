"""CEL behind one typed facade: `CelParser` for the definition's door, `CelEvaluator` for running.

Only this package knows the engine. Nothing here reads or writes a store.
"""

from tenuto.adapters.cel.evaluator import CelEvaluator
from tenuto.adapters.cel.parser import CelParser

__all__ = ["CelEvaluator", "CelParser"]
