"""Agents: pure `init`, `act` and `update` over one pytree of a state."""

from eligrad.agents.network import Network, default_network, from_equinox
from eligrad.agents.presets import PRESETS, TITLES
from eligrad.agents.q_lambda import QLambda, QLambdaConfig, QLambdaState
from eligrad.agents.streaming import Experience, Signals, StreamingAgent

__all__ = [
    "PRESETS",
    "TITLES",
    "Experience",
    "Network",
    "QLambda",
    "QLambdaConfig",
    "QLambdaState",
    "Signals",
    "StreamingAgent",
    "default_network",
    "from_equinox",
]
