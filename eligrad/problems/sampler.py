"""Experience from a finite problem, in JAX: pure functions of a key, for `jit` and `vmap`."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eligrad._base.checks import whole_number
from eligrad.problems.mdp import FiniteMDP, Policy


class Transition(NamedTuple):
    """One transition, or with a leading time axis a stream of them across episodes."""

    state: Int[Array, "..."]
    action: Int[Array, "..."]
    ratio: Float[Array, "..."]
    """rho_t of the action; 1 when the target policy acts."""
    reward: Float[Array, "..."]
    discount: Float[Array, "..."]
    """gamma_{t+1}: 0 where the transition terminated."""
    next_state: Int[Array, "..."]
    """The real successor: a terminal one is not replaced by the next start."""
    terminated: Bool[Array, "..."]


def initial_state(mdp: FiniteMDP, key: PRNGKeyArray) -> Int[Array, ""]:
    """A first state, drawn from `mdp.start`."""
    return _pick(mdp.start, (), jax.random.uniform(key, (), jnp.float32))


def step(
    mdp: FiniteMDP, key: PRNGKeyArray, state: Int[Array, ""], *, policy: Policy = "behaviour"
) -> tuple[Int[Array, ""], Transition]:
    """One transition from `state`, and the state to act in next: after an end, a fresh start.

    Args:
        mdp: the process.
        key: decides the action, the successor and the fresh start.
        state: where to act.
        policy: which of the two policies acts.
    """
    return _advance(mdp, policy, state, _uniforms(key))


def sample(
    mdp: FiniteMDP,
    key: PRNGKeyArray,
    num_steps: int,
    *,
    policy: Policy = "behaviour",
    state: Int[Array, ""] | None = None,
) -> Transition:
    """`num_steps` transitions in a row, episode after episode; every field has a time axis [T].

    Args:
        mdp: the process.
        key: decides everything that is random.
        num_steps: how many.
        policy: which of the two policies acts.
        state: where to begin; by default as `mdp.start` says.
    """
    num_steps = whole_number("num_steps", num_steps)
    start_key, steps_key = jax.random.split(key)
    first = initial_state(mdp, start_key) if state is None else state
    # All random numbers at once, outside the loop: it compiles and runs several times faster.
    uniforms = jax.vmap(_uniforms)(jax.random.split(steps_key, num_steps))
    return jax.lax.scan(functools.partial(_advance, mdp, policy), first, uniforms)[1]


def _uniforms(key: PRNGKeyArray) -> Float[Array, "3"]:
    """The random numbers of one step: for the action, the successor, and a fresh start."""
    return jax.random.uniform(key, (3,), jnp.float32)


def _advance(
    mdp: FiniteMDP, policy: Policy, state: Int[Array, ""], uniforms: Float[Array, "3"]
) -> tuple[Int[Array, ""], Transition]:
    action = _pick(mdp.policy(policy), (state,), uniforms[0])
    successor = _pick(mdp.transitions, (state, action), uniforms[1])
    terminated = successor >= mdp.num_states
    ratios = mdp.ratios if policy == "behaviour" else np.ones_like(mdp.ratios)
    transition = Transition(
        state=state,
        action=action,
        ratio=jnp.asarray(ratios)[state, action],
        reward=jnp.asarray(mdp.rewards)[state, action, successor],
        discount=jnp.asarray(mdp.discounts)[state, action, successor],
        next_state=successor,
        terminated=terminated,
    )
    return jnp.where(terminated, _pick(mdp.start, (), uniforms[2]), successor), transition


def _pick(
    probabilities: Float[np.ndarray, "... n"],
    row: tuple[Int[Array, ""], ...],
    uniform: Float[Array, ""],
) -> Int[Array, ""]:
    """An outcome of one row: the first whose running sum exceeds a uniform draw from [0, 1).

    The running sums of the outcomes before it are those that do not: it is their number.
    """
    running_sums = jnp.asarray(_cumulative(probabilities))[row]
    return jnp.sum(running_sums <= uniform, dtype=jnp.int32)


def _cumulative(probabilities: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "... n"]:
    """Running sums by which no outcome of probability 0 is drawn; the last is exactly 1.

    For that they are taken in double precision: what is within 1e-9 of 1 rounds to it in float32.
    """
    return np.cumsum(probabilities, axis=-1).astype(np.float32)
