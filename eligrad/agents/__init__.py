"""Agents: pure `init`, `act` and `update` (or `learn`) over one pytree of a state."""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.agents.gradient_ppo import GradientPPO as GradientPPO
    from eligrad.agents.gradient_ppo import GradientPPOConfig as GradientPPOConfig
    from eligrad.agents.network import Network as Network
    from eligrad.agents.network import default_network as default_network
    from eligrad.agents.network import from_equinox as from_equinox
    from eligrad.agents.network import ppo_network as ppo_network
    from eligrad.agents.policies import DiscretePolicy as DiscretePolicy
    from eligrad.agents.policies import GaussianPolicy as GaussianPolicy
    from eligrad.agents.policies import Policy as Policy
    from eligrad.agents.policies import SoftplusGaussianPolicy as SoftplusGaussianPolicy
    from eligrad.agents.ppo import PPO as PPO
    from eligrad.agents.ppo import ActorCritic as ActorCritic
    from eligrad.agents.ppo import ActorCriticConfig as ActorCriticConfig
    from eligrad.agents.ppo import PPOConfig as PPOConfig
    from eligrad.agents.ppo import PPOState as PPOState
    from eligrad.agents.protocol import Agent as Agent
    from eligrad.agents.protocol import Inspection as Inspection
    from eligrad.agents.protocol import Rollout as Rollout
    from eligrad.agents.protocol import RolloutAgent as RolloutAgent
    from eligrad.agents.protocol import StreamingAgent as StreamingAgent
    from eligrad.agents.protocol import Transition as Transition
    from eligrad.agents.q_lambda import QLambda as QLambda
    from eligrad.agents.q_lambda import QLambdaConfig as QLambdaConfig
    from eligrad.agents.q_lambda import QLambdaState as QLambdaState
    from eligrad.agents.registry import AGENTS as AGENTS
    from eligrad.agents.registry import PRESETS as PRESETS
    from eligrad.agents.registry import TITLES as TITLES
    from eligrad.agents.registry import make_settings as make_settings
    from eligrad.agents.registry import register as register
    from eligrad.agents.stream_ac import StreamAC as StreamAC
    from eligrad.agents.stream_ac import StreamACConfig as StreamACConfig
    from eligrad.agents.stream_ac import StreamACState as StreamACState

__getattr__, __dir__ = lazy(__name__)
