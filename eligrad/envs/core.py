"""The environment protocol: pure functions of a key, a state and numeric parameters.

An environment of your own needs two spaces and two methods:

    class Corridor(Environment):
        name = "Corridor"
        observation_space = Box(0.0, 1.0, (1,))
        action_space = Discrete(2)

        def reset(self, key, params): ...              # -> state, observation
        def step(self, key, state, action, params): ...  # -> Step

`step` describes one transition and nothing else: it never starts the next episode. `step_autoreset`
does that. It keeps the real final observation, so that a truncated episode can be bootstrapped from
the state in which it really ended.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from eligrad.envs.spaces import Box, Space

State = TypeVar("State")


class Step(NamedTuple):
    """One transition, as the environment's `step` returns it."""

    state: Any
    observation: Shaped[Array, "..."]
    """The observation that the action led to, also when the episode ended there."""
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    """The episode ended by the rules of the task: no reward follows."""
    truncated: Bool[Array, ""]
    """The episode was cut off from outside: rewards would have followed."""


class Transition(NamedTuple):
    """One transition of a stream of episodes: where it led, and where the agent acts next."""

    state: Any
    observation: Shaped[Array, "..."]
    """The observation to act on next: after an end, the first one of the next episode."""
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    next_observation: Shaped[Array, "..."]
    """The observation that the action led to: bootstrap from this one."""
    next_state: Any
    """The state that the action led to, also when the episode ended there."""


class Environment(Generic[State]):
    """Base of all JAX environments; instances are static, everything numeric is in `params`."""

    name: str
    observation_space: Space
    action_space: Space

    def default_params(self) -> Any:
        """The numbers of the environment: a pytree whose leaves can be vmapped over."""
        return ()

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[State, Shaped[Array, "..."]]:
        """Starts an episode; returns its first state and observation."""
        raise NotImplementedError(f"{type(self).__name__} must define reset(key, params)")

    def step(self, key: PRNGKeyArray, state: State, action: Array, params: Any) -> Step:
        """Takes `action` in `state`. Must not start a new episode.

        Args:
            key: for all that is random in the step.
            state: as `reset`, `restart` or the step before returned it.
            action: one of `action_space`.
            params: the numbers of the environment, like `default_params()`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define step(key, state, action, params)"
        )

    def restart(
        self, key: PRNGKeyArray, state: State, params: Any
    ) -> tuple[State, Shaped[Array, "..."]]:
        """Starts the episode after the one that ended in `state`.

        The same as `reset`, unless a part of the old state is kept for the next episode.
        """
        del state
        return self.reset(key, params)

    def step_autoreset(
        self, key: PRNGKeyArray, state: State, action: Array, params: Any
    ) -> Transition:
        """Takes one step; if it ends the episode, starts the next one.

        Redefine it only to do the same faster, and join the two with `follow`.

        Args:
            key: for all that is random in the step and in the start.
            state: as `reset` or the step before returned it.
            action: one of `action_space`.
            params: the numbers of the environment, like `default_params()`.
        """
        step_key, restart_key = jax.random.split(key)
        stepped = self.step(step_key, state, action, params)
        return follow(stepped, self.restart(restart_key, stepped.state, params))

    def render(self, state: State, params: Any) -> np.ndarray | Array | None:
        """Returns a picture of a state for `eligrad play`: uint8 [height, width, 3], or None.

        It is not called inside compiled programs: arrays have their values.
        """
        del state, params
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def select(condition: Bool[Array, ""], on_true: PyTree, on_false: PyTree) -> PyTree:
    """Returns one of two pytrees of equal shapes, chosen by a traced scalar."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), on_true, on_false)


def step_autoreset(
    env: Environment, key: PRNGKeyArray, state: Any, action: Array, params: Any
) -> Transition:
    """Takes one step; if it ends the episode, starts the next one.

    Raises ValueError or TypeError for an action that is not in the action space.

    Args:
        env: the environment.
        key: for all that is random in the step and in the start.
        state: as `reset` or the step before returned it.
        action: one of `action_space`.
        params: the numbers of the environment, like `env.default_params()`.
    """
    check_action(env, action)
    return env.step_autoreset(key, state, action, params)


def check_action(env: Environment, action: Array) -> None:
    """Raises an error for an action of the wrong dtype, shape or (if it has a value) range."""
    space = env.action_space
    if action.shape != space.shape:
        raise ValueError(
            f"the action has shape {action.shape}; {env.name} accepts shape {space.shape} "
            "(use jax.vmap for several environments)"
        )
    if isinstance(space, Box) == bool(jnp.issubdtype(action.dtype, jnp.integer)):
        kind = "a float" if isinstance(space, Box) else f"an integer from 0 to {space.high}"
        raise TypeError(f"the action has dtype {action.dtype}; {env.name} accepts {kind}")
    if isinstance(action, jax.core.Tracer):
        return
    if not np.all((np.asarray(action) >= space.low) & (np.asarray(action) <= space.high)):
        raise ValueError(f"the action is {action}; {env.name} accepts {space.low} to {space.high}")


def follow(stepped: Step, fresh: tuple[Any, Shaped[Array, "..."]]) -> Transition:
    """Joins a step and `fresh`, the start of the next episode, which is used after an end."""
    ended = stepped.terminated | stepped.truncated
    state, observation = select(ended, fresh, (stepped.state, stepped.observation))
    return Transition(
        state=state,
        observation=observation,
        reward=stepped.reward,
        terminated=stepped.terminated,
        truncated=stepped.truncated,
        next_observation=stepped.observation,
        next_state=stepped.state,
    )
