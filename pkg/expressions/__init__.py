"""Expressions over arrays, which a call computes in one pass.

From the lowest floor to the highest: `graph`, the form of all expressions; `parsing`, which makes
graphs of texts; `lowering`, which makes programs of graphs; `expression`, with `Expression` and
`evaluate`; `tracing`, with `fuse`.
"""

from .expression import Expression as Expression
from .expression import evaluate as evaluate
from .tracing import fuse as fuse
