"""The dense work of a QRC(λ) step as hand-written C (`floor.c`), called from Python.

It learns from recorded transitions with the weights, traces and settings of an agent, so that a
test can compare its result with the agent's own.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eligrad.agents import QLambda, QLambdaConfig, Transition, default_network
from eligrad.agents.q_lambda import QLambdaState
from eligrad.agents.streaming import normalize_transition
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.stream import begin, play
from eligrad.envs import Discrete, Environment, make

FLAGS = ("-O3", "-march=native", "-ffast-math")


class Recorded(NamedTuple):
    """Transitions of an agent, with the states before the first and after the last of them."""

    agent: QLambda
    start: QLambdaState
    end: QLambdaState
    transitions: np.ndarray
    """Each is a `Transition` of floor.c."""
    td_errors: np.ndarray


def record(game: str, steps: int, config: QLambdaConfig | None = None) -> Recorded:
    """Trains QRC(λ) for so many steps and returns what it learned from.

    The traces are emptied whenever an action was not greedy, as in training.
    """
    env = make(f"MinAtar/{game}-v1")
    assert isinstance(env, Environment)
    assert isinstance(env.action_space, Discrete)
    network = default_network(env.observation_space.shape, env.action_space.n)
    agent = QLambda(config or QLambdaConfig(), network)
    params = jax.tree.map(jnp.asarray, env.default_params())
    first = begin(agent, env, params, jnp.asarray(0), jnp.asarray(0))

    def step(carry: Any, number: Any) -> Any:
        state, env_state = carry
        act_key, update_key = split_step_key(first.agent_key, number)
        state, action = agent.act(state, act_key)
        env_key = jax.random.fold_in(first.env_key, number)
        reached = play(env, env_key, env_state, action, params)
        transition = Transition.of(reached)
        _, seen = normalize_transition(state.normalizer, transition, agent.config.gamma)
        ended = transition.terminated | transition.truncated
        learned, metrics = agent.update(state, transition, update_key)
        fields = {
            "before": jnp.ravel(state.observation),
            "after": jnp.ravel(seen.next_observation),
            "reward": seen.reward,
            "action": action,
            "terminated": transition.terminated,
            "reset": ended | ~state.greedy,
        }
        return (learned, reached.state), (fields, metrics["td_error"])

    carry, numbers = (first.agent, first.env), jnp.arange(1, steps + 1)
    (end, _), (fields, errors) = jax.jit(lambda carry: jax.lax.scan(step, carry, numbers))(carry)
    pixels = fields["before"].shape[1:]
    kinds = [("before", "f4", pixels), ("after", "f4", pixels), ("reward", "f4")]
    kinds += [(name, "i4") for name in ("action", "terminated", "reset")]
    transitions = np.empty(steps, kinds)
    for name, column in fields.items():
        transitions[name] = column
    return Recorded(agent, first.agent, end, transitions, np.asarray(errors))


class Floor:
    """An agent in C, from the first state of what was recorded."""

    def __init__(self, recorded: Recorded) -> None:
        config, network = recorded.agent.config, recorded.start.w
        self._library = ctypes.CDLL(
            _compile(network.observation_shape[-1], network.output.bias.size)
        )
        self._settings = np.array(
            [
                config.gamma,
                config.lam,
                config.step_size,
                config.h_scale * config.step_size,
                config.beta,
            ],
            np.float32,
        )
        self.memory = flat(recorded.start)

    def learn(self, transitions: np.ndarray) -> np.ndarray:
        """Learns from the transitions in turn, and returns their TD errors."""
        errors = np.empty(len(transitions), np.float32)
        arguments = (self.memory, self._settings, transitions, errors)
        memory, settings, rows, out = (a.ctypes.data_as(ctypes.c_void_p) for a in arguments)
        self._library.learn(memory, settings, len(transitions), rows, out)
        return errors


def flat(state: QLambdaState) -> np.ndarray:
    """Weights and traces as the struct `Agent` of floor.c has them."""
    z = state.traces
    parts = (state.w, state.theta, z.w, z.theta, z.h, z.discount)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(parts)])


def has_compiler() -> bool:
    """Whether the system has a C compiler."""
    return shutil.which("cc") is not None


@functools.cache
def _compile(channels: int, actions: int) -> str:
    source = Path(__file__).with_suffix(".c")
    library = Path(tempfile.mkdtemp()) / "floor.so"
    sizes = (f"-DCHANNELS={channels}", f"-DACTIONS={actions}")
    command = ["cc", *FLAGS, "-shared", "-fPIC", *sizes, str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return str(library)
