"""A recorded stream of transitions, in which everything happens that can end an episode."""

from typing import Any, NamedTuple

import jax
import numpy as np

from eligrad.agents import Transition


class Recording(NamedTuple):
    first: Any
    transitions: Any
    """`Transition` of arrays with a leading time axis."""
    act_keys: Any
    update_keys: Any
    act_uniforms: Any
    update_uniforms: Any


def record(steps, shape, dtype: Any, seed=0):
    """Random observations and rewards; one step in six ends an episode, in each possible way."""
    rng = np.random.default_rng(seed)

    def observations(count):
        if dtype is np.bool_:
            return rng.random((count, *shape)) < 0.3
        # Columns of different mean and size, as a normaliser should expect.
        scale, offset = rng.uniform(0.2, 3.0, shape), rng.uniform(-2.0, 2.0, shape)
        return (offset + scale * rng.standard_normal((count, *shape))).astype(dtype)

    pool: Any = observations(2 * steps + 1)
    how = rng.random(steps)
    terminated, truncated = how < 0.11, (how > 0.07) & (how < 0.18)
    arrived, following = pool[:steps], pool[:steps].copy()
    ended = terminated | truncated
    following[ended] = pool[steps : 2 * steps][ended]
    keys = jax.vmap(jax.random.split)(jax.random.split(jax.random.key(seed), steps))
    uniforms = jax.vmap(jax.vmap(lambda key: jax.random.uniform(key, (2,), np.float32)))(keys)
    return Recording(
        first=pool[-1],
        transitions=Transition(
            reward=rng.normal(0.5, 2.0, steps).astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            next_observation=arrived,
            observation=following,
        ),
        act_keys=keys[:, 0],
        update_keys=keys[:, 1],
        act_uniforms=np.asarray(uniforms[:, 0], np.float64),
        update_uniforms=np.asarray(uniforms[:, 1], np.float64),
    )
