"""Deep reinforcement learning with gradient eligibility traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eligrad._base.lazy import lazy
from eligrad._base.system import version_of

if TYPE_CHECKING:
    from eligrad.analysis import load_runs as load_runs
    from eligrad.api import GQ2 as GQ2
    from eligrad.api import PPO as PPO
    from eligrad.api import QC as QC
    from eligrad.api import QRC as QRC
    from eligrad.api import ExpectedSarsaLambda as ExpectedSarsaLambda
    from eligrad.api import GradientAC as GradientAC
    from eligrad.api import GradientPPO as GradientPPO
    from eligrad.api import Learner as Learner
    from eligrad.api import QLambda as QLambda
    from eligrad.api import SarsaLambda as SarsaLambda
    from eligrad.api import StreamAC as StreamAC
    from eligrad.api import StreamQ as StreamQ
    from eligrad.api import learner as learner
    from eligrad.api import load as load
    from eligrad.engines import Online as Online

_get, _names = lazy(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version_of("eligrad") or "unknown"  # run from its source, without being installed
    return _get(name)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
