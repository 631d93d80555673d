"""The training loop: `train` and `resume`, callbacks, progress, loggers, evaluation, videos."""

from eligrad._base.interruption import Interrupted
from eligrad._base.optional import needs_train

with needs_train("eligrad.training"):
    from eligrad.training.run import prepare, resume, train
    from eligrad.training.session import Callback, Result, Session

__all__ = ["Callback", "Interrupted", "Result", "Session", "prepare", "resume", "train"]
