"""Environments by name.

- `"MinAtar/Breakout-v1"`, and whatever was registered here: JAX environments of eligrad or yours;
- `"gymnax/CartPole-v1"`, `"brax/ant"`: JAX environments of others;
- `"HalfCheetah-v5"`, `"ALE/Pong-v5"`: any other id goes to Gymnasium, and so does
  `"gymnasium/MinAtar/Breakout-v1"`, where a name of ours would come first;
- `"my_package:MyEnv-v0"`: what that module registers, here or with Gymnasium.

What a name needs is imported when it is made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eligrad._base.errors import UnknownName, did_you_mean
from eligrad._base.lazy import imported
from eligrad._base.optional import import_optional
from eligrad.envs.core import Environment
from eligrad.envs.host import HostEnvironment
from eligrad.envs.names import (
    ADAPTERS,
    REGISTERED,
    EntryPoint,
    check_name,
    import_module_of,
    module_of,
)
from eligrad.envs.wrappers import TimeLimit


def make(
    name: str, *, max_episode_steps: int | None = None, **options: Any
) -> Environment | HostEnvironment:
    """Makes the environment of that name; `options` go to its class or function.

    A JAX environment comes back as an `Environment`, one of Gymnasium's as a `HostEnvironment`.
    Episodes are truncated after `max_episode_steps`, if given; else as the suite itself does it.
    """
    import_module_of(name)
    own = name.removeprefix(f"{module_of(name)}:")
    timed = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    suite, _, rest = name.partition("/")
    if own in REGISTERED:
        return _limited(_made(own, REGISTERED[own], **options), max_episode_steps)
    if suite == "gymnax":
        return _limited(_made(name, ADAPTERS[suite], rest, **options), max_episode_steps)
    if suite in ADAPTERS:
        return _made(name, ADAPTERS[suite], rest, **timed, **options)
    check_name(name)
    purpose = f"{name!r}, which is not one of eligrad's own{did_you_mean(name, REGISTERED)},"
    import_optional("gymnasium", extra="gymnasium", purpose=purpose)
    try:
        return _made(name, ADAPTERS["gymnasium"], name, **timed, **options)
    except UnknownName as error:
        raise UnknownName("environment", name, error.known | REGISTERED.keys()) from None


def _made(
    name: str, entry_point: EntryPoint, *arguments: Any, **options: Any
) -> Environment | HostEnvironment:
    env = imported(entry_point)(*arguments, **options)
    if not isinstance(env, Environment | HostEnvironment):
        raise TypeError(
            f"{name!r} made {env!r}; an eligrad.envs.Environment is accepted. For a Gymnasium "
            "class register a function that returns GymnasiumEnvironment(YourClass)"
        )
    return env


def _limited(
    env: Environment | HostEnvironment, max_episode_steps: int | None
) -> Environment | HostEnvironment:
    if max_episode_steps is None:
        return env
    if isinstance(env, HostEnvironment):
        raise ValueError(
            f"max_episode_steps is {max_episode_steps}, but {env.name!r} was registered "
            "ready-made: GymnasiumEnvironment(YourClass, max_episode_steps=...) takes it"
        )
    return TimeLimit(env, max_episode_steps)


def as_environment(
    env: Any, max_episode_steps: int | None = None, info: Sequence[str] = ()
) -> Environment | HostEnvironment:
    """Returns the environment of a name or a Gymnasium class; an environment as it is.

    `info` names numbers of a step's info that become metrics.
    """
    made = _as_environment(env, max_episode_steps)
    if isinstance(info, str):
        raise TypeError(f"info is {info!r}; a list of names is accepted")
    if not info:
        return made
    if isinstance(made, HostEnvironment):
        return made.with_info(info)
    raise ValueError(
        f"info is {list(info)}, but {made.name!r} is a JAX environment, whose steps have no info; "
        "environments of Gymnasium have"
    )


def _as_environment(env: Any, max_episode_steps: int | None) -> Environment | HostEnvironment:
    if isinstance(env, str):
        return make(env, max_episode_steps=max_episode_steps)
    if isinstance(env, type) and issubclass(env, Environment | HostEnvironment):
        raise TypeError(f"env is the class {env.__name__}; an object of it is accepted")
    if not isinstance(env, Environment | HostEnvironment):
        if not callable(env):
            raise TypeError(
                f"env is {env!r}; a name, an environment of eligrad, or a Gymnasium class or a "
                "function that makes one is accepted: every seed has its own copy"
            )
        from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment

        builder: Any = env
        return GymnasiumEnvironment(builder, max_episode_steps=max_episode_steps)
    if max_episode_steps is not None:
        raise ValueError(
            f"max_episode_steps is {max_episode_steps}, but {env!r} exists already: it is for "
            "environments given by name (eligrad.envs.make takes it)"
        )
    return env


def change_params(env: Environment | HostEnvironment, changes: dict[str, Any]) -> Any:
    """Returns the parameters of a JAX environment with some of them changed."""
    if isinstance(env, HostEnvironment):
        if changes:
            raise ValueError(f"env_params are {changes}, but {env.name!r} is not a JAX environment")
        return ()
    leaves, structure = jax.tree_util.tree_flatten_with_path(env.default_params())
    named = {jax.tree_util.keystr(p, simple=True, separator="/"): leaf for p, leaf in leaves}
    for name, value in changes.items():
        if name not in named:
            raise UnknownName(f"parameter of {env.name}", name, named)
        default = np.asarray(jnp.asarray(named[name]))
        changed = _converted(value, default.dtype)
        if changed is None or changed.shape != default.shape:
            number = "a number" if default.dtype.kind == "f" else "a whole number"
            kind = "True or False" if default.dtype == bool else f"{number} ({default.dtype})"
            if default.shape:
                kind = f"an array of shape {default.shape}, each entry {kind},"
            raise ValueError(
                f"{name} of env_params is {value!r}; {kind} is accepted, like its default, "
                f"{named[name]}"
            )
        named[name] = changed if changed.ndim else changed.item()
    params = jax.tree.unflatten(structure, list(named.values()))
    _check_observations(env, params)
    return params


def _converted(value: Any, dtype: np.dtype) -> np.ndarray | None:
    """The value with this dtype, or None where that cannot hold it."""
    given = np.asarray(value)
    try:
        with np.errstate(over="ignore"):  # beyond float32 is infinite
            converted = np.asarray(value, dtype)
    except (OverflowError, TypeError, ValueError):
        return None
    if given.dtype.kind not in "biuf":
        return None
    same = np.isfinite(given) == np.isfinite(converted) if dtype.kind == "f" else given == converted
    return converted if np.all(same) else None


def plain_params(changes: dict[str, Any] | None) -> dict[str, Any]:
    """Returns changed parameters as JSON values; raises ValueError for what is none."""
    plain = {name: np.asarray(value).tolist() for name, value in (changes or {}).items()}
    for name, value in plain.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} of env_params is {value}; finite numbers are accepted"
            ) from None
    return plain


def _check_observations(env: Environment, params: Any) -> None:
    """Raises ValueError if observations do not have the shape of `observation_space`."""
    key = jax.eval_shape(jax.random.key, 0)
    state, first = jax.eval_shape(env.reset, key, params)
    action = jax.ShapeDtypeStruct(env.action_space.shape, env.action_space.dtype)
    following = jax.eval_shape(env.step, key, state, action, params).observation
    promised = env.observation_space.shape
    for method, observation in (("reset", first), ("step", following)):
        if observation.shape != promised:
            raise ValueError(
                f"{env.name!r}: {method} gives an observation of shape {observation.shape}; "
                f"observation_space promises {promised}"
            )
