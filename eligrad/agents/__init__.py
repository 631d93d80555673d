"""Agents: pure `init`, `act` and `update` (or `learn`) over one pytree of a state."""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.agents.gradient_ppo import GradientPPO, GradientPPOConfig
    from eligrad.agents.network import Network, default_network, from_equinox, ppo_network
    from eligrad.agents.policies import (
        DiscretePolicy,
        GaussianPolicy,
        Policy,
        SoftplusGaussianPolicy,
    )
    from eligrad.agents.ppo import PPO, ActorCritic, ActorCriticConfig, PPOConfig, PPOState
    from eligrad.agents.protocol import (
        Agent,
        Inspection,
        Rollout,
        RolloutAgent,
        StreamingAgent,
        Transition,
    )
    from eligrad.agents.q_lambda import QLambda, QLambdaConfig, QLambdaState
    from eligrad.agents.registry import AGENTS, PRESETS, TITLES, make_settings, register
    from eligrad.agents.stream_ac import StreamAC, StreamACConfig, StreamACState

__all__ = [
    "AGENTS",
    "PPO",
    "PRESETS",
    "TITLES",
    "ActorCritic",
    "ActorCriticConfig",
    "Agent",
    "DiscretePolicy",
    "GaussianPolicy",
    "GradientPPO",
    "GradientPPOConfig",
    "Inspection",
    "Network",
    "PPOConfig",
    "PPOState",
    "Policy",
    "QLambda",
    "QLambdaConfig",
    "QLambdaState",
    "Rollout",
    "RolloutAgent",
    "SoftplusGaussianPolicy",
    "StreamAC",
    "StreamACConfig",
    "StreamACState",
    "StreamingAgent",
    "Transition",
    "default_network",
    "from_equinox",
    "make_settings",
    "ppo_network",
    "register",
]

__getattr__, __dir__ = lazy(__name__)
