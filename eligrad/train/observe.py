"""One dispatch of an agent whose world is elsewhere: learn from what came, then choose.

The streaming engine acts and learns within one step of its scan. An agent that waits for the
world in between does the same in the other order: it learns from step t and chooses for t + 1.
Random numbers belong to steps, not to calls, so that both give the same run.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Int, PRNGKeyArray

from eligrad.agents.streaming import Experience, Signals, StreamingAgent


def step_keys(agent_key: PRNGKeyArray, step: Int[Array, ""]) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """The keys for acting and for learning in the step of that number; steps count from 1."""
    act_key, update_key = jax.random.split(jax.random.fold_in(agent_key, step))
    return act_key, update_key


def choose(
    agent: StreamingAgent, state: Any, agent_key: PRNGKeyArray, step: Int[Array, ""]
) -> tuple[Any, Array]:
    """The action of a step, in the observation that the agent has before it."""
    return agent.act(state, step_keys(agent_key, step)[0])


def observe(
    agent: StreamingAgent,
    state: Any,
    agent_key: PRNGKeyArray,
    step: Int[Array, ""],
    experience: Experience,
) -> tuple[Any, Array, Signals]:
    """Learns from what the action of `step` led to, and chooses the next one."""
    state, signals = agent.update(state, experience, step_keys(agent_key, step)[1])
    state, action = choose(agent, state, agent_key, step + 1)
    return state, action, signals
