"""Agents: pure `init`, `act` and `update` over one pytree of a state."""

from eligrad.agents.gradient_ppo import GradientPPO, GradientPPOConfig
from eligrad.agents.network import Network, default_network, from_equinox, ppo_network
from eligrad.agents.policies import DiscretePolicy, GaussianPolicy, Policy
from eligrad.agents.ppo import PPO, ActorCritic, ActorCriticConfig, PPOConfig, PPOState, Rollout
from eligrad.agents.presets import PRESETS, TITLES
from eligrad.agents.q_lambda import QLambda, QLambdaConfig, QLambdaState
from eligrad.agents.streaming import Experience, Signals, StreamingAgent

__all__ = [
    "PPO",
    "PRESETS",
    "TITLES",
    "ActorCritic",
    "ActorCriticConfig",
    "DiscretePolicy",
    "Experience",
    "GaussianPolicy",
    "GradientPPO",
    "GradientPPOConfig",
    "Network",
    "PPOConfig",
    "PPOState",
    "Policy",
    "QLambda",
    "QLambdaConfig",
    "QLambdaState",
    "Rollout",
    "Signals",
    "StreamingAgent",
    "default_network",
    "from_equinox",
    "ppo_network",
]
