"""The part of `check_env` that takes steps: values, randomness, ends of episodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eligrad.envs.core import Environment, Step, select
from eligrad.envs.spaces import Space

_COPIES = 4
_SAMPLE = 16
"""How many ends of episodes are checked in detail."""
_FAR = 1e6
_PURITY = (
    "Its only randomness may be jax.random with the given key; Python's or NumPy's random numbers, "
    "counters on self and global variables are read once, when the function is compiled"
)
_HINTS: dict[type[Exception], str] = {
    jax.errors.TracerBoolConversionError: "A Python `if`, `while`, `and` or `not` looks at an "
    "array's value: use jnp.where, jax.lax.cond, & or ~",
    jax.errors.TracerIntegerConversionError: "An array's value is used as a Python integer (an "
    "index of a list, a range): make the list an array with jnp.asarray",
    jax.errors.TracerArrayConversionError: "A NumPy function is called on a JAX array: use "
    "jax.numpy's",
    jax.errors.ConcretizationTypeError: "An array's value is used as a Python number (float(), "
    "int(), a shape): keep it an array",
    jax.errors.UnexpectedTracerError: "A value of an earlier call was kept outside of the state, "
    "on self perhaps: put it into the state",
}


class Played(NamedTuple):
    """Random play in a few copies, as NumPy arrays."""

    first_observation: Shaped[np.ndarray, "copies ..."]
    keys: Shaped[Array, "copies steps"]
    """What each step was given."""
    state: Any
    observation: Shaped[np.ndarray, "copies steps ..."]
    reward: Float[np.ndarray, "copies steps"]
    ended: Bool[np.ndarray, "copies steps"]


def check_behaviour(env: Environment, params: Any, *, seed: int, steps: int) -> list[str]:
    """Returns the problems that appear only when the environment is run."""
    key = jax.random.key(seed)
    return (
        _check_pure(env, params, key)
        or _check_vmapped_params(env, params)
        or _check_play(env, params, key, steps)
    )


def _check_pure(env: Environment, params: Any, key: PRNGKeyArray) -> list[str]:
    """Whether results are the same, however and how often they are computed."""
    action = random_action(env.action_space, key)

    def each_method_once(key: PRNGKeyArray, action: Array, params: Any) -> Any:
        start = env.reset(key, params)
        stepped = env.step(key, start[0], action, params)
        restarted = env.restart(key, stepped.state, params)
        return {"reset": start, "step": stepped, "restart": restarted}

    def compiled() -> Callable[..., Any]:
        # A new function each time: JAX remembers what it compiled by the function's identity.
        return jax.jit(lambda *arguments: each_method_once(*arguments))

    try:
        once = compiled()
        first, second = once(key, action, params), once(key, action, params)
        fresh = compiled()(key, action, params)
        plain = each_method_once(key, action, params)
    except Exception as error:  # other people's code may raise anything
        return [explain("it failed when it was run", error)]
    for other, exact, how in (
        (second, True, "the same compiled function, called twice with the same key"),
        (fresh, True, "the same function, compiled twice"),
        (plain, False, "the same function, compiled and not compiled"),
    ):
        # In the order of use, because a difference in one method shows in the next.
        for method in ("reset", "step", "restart"):
            where = _first_difference(first[method], other[method], exact=exact)
            if where is not None:
                return [f"{method} gives different results ({how}): {where}. {_PURITY}"]
    return []


def _check_vmapped_params(env: Environment, params: Any) -> list[str]:
    if not jax.tree.leaves(params):
        return []

    def begin_and_step(params: Any) -> Any:
        key = jax.random.key(0)
        state, _ = env.reset(key, params)
        return env.step(key, state, random_action(env.action_space, key), params)

    two = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), params)
    try:
        jax.eval_shape(jax.vmap(begin_and_step), two)
    except Exception as error:  # other people's code may raise anything
        return [explain("it fails under jax.vmap over its parameters", error)]
    return []


def _check_play(env: Environment, params: Any, key: PRNGKeyArray, steps: int) -> list[str]:
    try:
        played = _play(env, params, key, steps)
    except Exception as error:  # other people's code may raise anything
        return [explain("it fails in a compiled loop over copies (jax.vmap, jax.lax.scan)", error)]
    problems = _outside(env.observation_space, "after reset", played.first_observation[:, None])
    problems += _outside(env.observation_space, "after random steps", played.observation)
    if not np.isfinite(played.reward).all():
        copy, step = np.argwhere(~np.isfinite(played.reward))[0]
        problems.append(
            f"the reward was {played.reward[copy, step]} at step {step + 1} of random play; it "
            "must always be finite"
        )
    if _begins_again(env, params, played):
        problems.append(
            "where an episode ended, step returned a state and an observation that reset gives: it "
            "seems to begin the next episode by itself, and the final observation is lost. Return "
            "the state and the observation in which the episode ended; the engines call restart. "
            "(If the task really ends where it begins, let the state count its steps.)"
        )
    return problems


def _play(env: Environment, params: Any, key: PRNGKeyArray, steps: int) -> Played:
    """Random actions in a few copies, through the ends of episodes."""
    first_key, action_key, step_key, restart_key = jax.random.split(key, 4)
    keys = jax.random.split(step_key, (_COPIES, steps))
    restart_keys = jax.random.split(restart_key, (_COPIES, steps))
    act = functools.partial(random_action, env.action_space)
    actions = jax.vmap(jax.vmap(act))(jax.random.split(action_key, (_COPIES, steps)))

    def body(state: Any, inputs: tuple[Array, Array, Array]) -> tuple[Any, Step]:
        key, restart_key, action = inputs
        stepped = env.step(key, state, action, params)
        fresh, _ = env.restart(restart_key, stepped.state, params)
        return select(stepped.terminated | stepped.truncated, fresh, stepped.state), stepped

    first_state, first_observation = _resets(env, params, jax.random.split(first_key, _COPIES))
    scan = jax.vmap(lambda state, inputs: jax.lax.scan(body, state, inputs)[1])
    stepped = jax.jit(scan)(first_state, (keys, restart_keys, actions))
    return Played(
        first_observation=np.asarray(first_observation),
        keys=keys,
        state=jax.tree.map(_to_numpy, stepped.state),
        observation=np.asarray(stepped.observation),
        reward=np.asarray(stepped.reward),
        ended=np.asarray(stepped.terminated | stepped.truncated),
    )


def _resets(env: Environment, params: Any, keys: Shaped[Array, " copies"]) -> tuple[Any, Array]:
    return jax.jit(jax.vmap(lambda key: env.reset(key, params)))(keys)


def _begins_again(env: Environment, params: Any, played: Played) -> bool:
    """Whether all steps that end an episode, and not all others, look like one of `reset`."""
    ended = played.ended
    ends, others = (tuple(np.argwhere(which)[:_SAMPLE].T) for which in (ended, ~ended))
    if not ended.any() or ended.all():
        return False  # one-step episodes: it cannot be seen
    where = tuple(np.concatenate(pair) for pair in zip(ends, others, strict=True))
    # A step that resets does so with its own key, or with one of those that it splits into.
    keys = played.keys[where]
    keys = jnp.concatenate([keys[None], jax.vmap(lambda k: jax.random.split(k, 4), 0, 1)(keys)])
    beginnings = jax.tree.map(
        lambda leaf: _to_numpy(leaf).reshape(*keys.shape, *leaf.shape[1:]),
        _resets(env, params, keys.reshape(-1)),
    )
    same: np.ndarray = np.ones(keys.shape, bool)
    results = played.state, played.observation
    for ours, first in zip(jax.tree.leaves(results), jax.tree.leaves(beginnings), strict=True):
        if ours.dtype != object:
            same &= (ours[where] == first).reshape(*keys.shape, -1).all(axis=-1)
    like_a_first = np.any(same, axis=0)
    count = len(ends[0])
    return bool(like_a_first[:count].all() and not like_a_first[count:].all())


def _to_numpy(leaf: Array) -> np.ndarray:
    """The values; for random keys, which have none to compare, an array of nothing."""
    return np.empty(leaf.shape, object) if _is_key(leaf) else np.asarray(leaf)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def random_action(space: Space, key: PRNGKeyArray) -> Array:
    """Draws an action uniformly from the space."""
    dtype = np.dtype(space.dtype)
    if dtype.kind != "f":
        low, high = (
            jnp.broadcast_to(jnp.asarray(b, jnp.int32), space.shape)
            for b in (space.low, space.high)
        )
        return jax.random.randint(key, space.shape, low, high + 1).astype(dtype)
    low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
    # An infinite bound is replaced by a number near 0.
    near_low = np.where(low < -_FAR, np.minimum(high, 0.0) - 10.0, low)
    near_high = np.where(high > _FAR, np.maximum(low, 0.0) + 10.0, high)
    low, high = (np.broadcast_to(b, space.shape).astype(dtype) for b in (near_low, near_high))
    return jax.random.uniform(key, space.shape, dtype, low, high)


def _outside(space: Space, when: str, observations: np.ndarray) -> list[str]:
    """The first of the observations (copies, steps, …) that the space does not contain."""
    low, high = space.low, space.high
    bad = ~((observations >= low) & (observations <= high))
    if not bad.any():
        return []
    copy, step, *place = np.argwhere(bad)[0]
    value = observations[(copy, step, *place)]
    where = f" at index {tuple(int(i) for i in place)}" if place else ""
    lowest, highest = (np.broadcast_to(b, space.shape)[tuple(place)] for b in (low, high))
    at = "" if when == "after reset" else f" (step {step + 1} of random play)"
    hint = (
        ". NaN often comes from 0 / 0 or from the root of a negative number"
        if value != value
        else ""
    )
    return [
        f"the observation {when} was {value}{where}{at}; observation_space allows {lowest} to "
        f"{highest}{hint}"
    ]


def _first_difference(a: Any, b: Any, *, exact: bool) -> str | None:
    """Where two results differ; compilation may change a float's last digits and no more."""
    others = jax.tree.leaves(b)
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), others, strict=True):
        if _is_key(x):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        x, y = np.asarray(x), np.asarray(y)
        tolerance = 0.0 if exact or x.dtype.kind != "f" else 1e-3
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"{jax.tree_util.keystr(path)} is {_short(x)}, then {_short(y)}"
    return None


def _short(array: np.ndarray) -> str:
    return np.array2string(array, threshold=6, precision=6, separator=", ")


def contents(env: Any) -> dict[str, Any]:
    """The environment's own attributes; those that Python computes once and keeps are no state."""
    return {
        name: _fingerprint(value)
        for name, value in getattr(env, "__dict__", {}).items()
        if not isinstance(getattr(type(env), name, None), functools.cached_property)
    }


def _fingerprint(value: Any) -> Any:
    """Something that changes when the value does; its identity where nothing better is known."""
    if isinstance(value, Environment):
        return contents(value)
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype, value.tobytes())
    if isinstance(value, dict | list | tuple | set | str | bytes | int | float | None):
        return repr(value)
    return id(value)


def first_line(error: Exception) -> str:
    """The kind of an error and the beginning of its message."""
    lines: Iterable[str] = (line.strip() for line in str(error).splitlines())
    message = next((line for line in lines if line), "")
    return f"{type(error).__name__}: {message}"


def explain(what: str, error: Exception) -> str:
    """What failed, with the error's first line and, where its kind is known, what to do."""
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), None)
    return f"{what}: {first_line(error)}" + (f" {hint}" if hint else "")
