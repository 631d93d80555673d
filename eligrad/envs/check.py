"""`check_env`: lists the problems of an environment, and how to correct them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eligrad.envs.check_behaviour import check_behaviour, contents, explain, first_line
from eligrad.envs.core import Step
from eligrad.envs.spaces import Box, Discrete, MultiDiscrete, Space

_NUMBERS = "biuf"
"""NumPy's letters for Booleans, integers and real numbers."""


class InvalidEnvironmentError(ValueError):
    """An environment breaks the protocol; `problems` lists how, and how to correct it."""

    def __init__(self, name: str, problems: list[str]) -> None:
        self.name = name
        self.problems = tuple(problems)
        listed = "\n".join(f"{i}. {problem}" for i, problem in enumerate(problems, start=1))
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{name} has {count}:\n{listed}")

    def __reduce__(self) -> tuple[type[InvalidEnvironmentError], tuple[str, list[str]]]:
        return type(self), (self.name, list(self.problems))


def check_env(env: Any, params: Any = None, *, seed: int = 0, steps: int = 200) -> None:
    """Raises `InvalidEnvironmentError`, with all problems found, if `env` breaks the protocol.

    First it reads the description: spaces, parameters, the shapes and dtypes that `reset`, `step`
    and `restart` return. If that is right, it takes random actions in a few copies, compiled and
    not, alone and under `vmap`. Problems that appear only later, or only with better actions, are
    not found.

    Args:
        env: the environment.
        params: its numbers; by default `env.default_params()`.
        seed: decides the random actions.
        steps: how many of them each copy takes.
    """
    before = contents(env)
    problems = _check_description(env)
    if not problems:
        params, problems = _check_params(env, params)
    if not problems:
        problems = _check_signatures(env, params)
    if not problems:
        problems = check_behaviour(env, params, seed=seed, steps=steps)
    problems += [
        f"self.{name} changed while the environment was used. Methods must be pure: what changes "
        "belongs into the state that reset and step return"
        for name, value in contents(env).items()
        if name not in before or before[name] != value
    ]
    if problems:
        raise InvalidEnvironmentError(_name(env), problems)


def _name(env: Any) -> str:
    name = getattr(env, "name", None)
    return f"{type(env).__name__} ({name!r})" if isinstance(name, str) else type(env).__name__


def _check_description(env: Any) -> list[str]:
    """Name, methods and spaces."""
    missing = [
        method
        for method in ("default_params", "reset", "step", "restart")
        if not callable(getattr(env, method, None))
    ]
    if missing:
        return [
            f"it has no method {' and no '.join(missing)}; inherit from eligrad.envs.Environment "
            "and define reset and step. (An environment of Gymnasium's is checked by "
            "gymnasium.utils.env_checker.check_env.)"
        ]
    problems = []
    if not isinstance(getattr(env, "name", None), str):
        problems.append(f"name is {getattr(env, 'name', None)!r}; give it a string")
    for attribute in ("observation_space", "action_space"):
        problems += _check_space(attribute, getattr(env, attribute, None))
    return problems


def _check_space(attribute: str, space: Any) -> list[str]:
    if isinstance(space, Discrete | MultiDiscrete):
        sizes = (space.n,) if isinstance(space, Discrete) else space.nvec
        if all(isinstance(size, int) and size >= 1 for size in sizes):
            return []
        return [f"{attribute} is {space}; n must be an integer of at least 1"]
    if not isinstance(space, Box):
        return [
            f"{attribute} is {space!r}; an eligrad.envs.Box, Discrete or MultiDiscrete is accepted"
        ]
    if np.dtype(space.dtype).kind not in _NUMBERS:
        return [f"{attribute} has dtype {space.dtype}, which is not a type of numbers"]
    return []


def _check_params(env: Any, params: Any) -> tuple[Any, list[str]]:
    """Returns the parameters, and the problems of those that `jax.vmap` cannot run over."""
    if params is None:
        try:
            params = env.default_params()
        except Exception as error:  # other people's code may raise anything
            return None, [f"default_params() raised {first_line(error)}"]
    problems = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        is_number = isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array)
        if not is_number or _dtype(leaf).kind not in _NUMBERS:
            problems.append(
                f"params{jax.tree_util.keystr(path)} is {leaf!r}, of type {type(leaf).__name__}; "
                "only numbers and arrays of numbers are accepted. What is fixed (a name, a size, a "
                "switch between two programs) belongs to the environment's __init__"
            )
    return params, problems


def _dtype(leaf: Any) -> np.dtype[Any]:
    """The NumPy type of a leaf; object for what has none, such as a typed random key."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return dtype if isinstance(dtype, np.dtype) else np.dtype(object)


def _check_signatures(env: Any, params: Any) -> list[str]:
    """What `reset`, `step` and `restart` return, by tracing: nothing is computed."""
    problems: list[str] = []
    key = jax.eval_shape(jax.random.key, 0)
    start = _traced(problems, "reset(key, params)", env.reset, key, params)
    if start is None or not _is_pair(problems, "reset", start):
        return problems
    state, observation = start
    problems += _check_array("reset's observation", observation, env.observation_space)

    action = jax.ShapeDtypeStruct(env.action_space.shape, env.action_space.dtype)
    call = "step(key, state, action, params)"
    stepped = _traced(problems, call, env.step, key, state, action, params)
    if isinstance(stepped, Step):
        problems += _check_step(env, stepped, state)
    elif stepped is not None:
        problems.append(
            f"step returned a {type(stepped).__name__}; return eligrad.envs.Step(state=…, "
            "observation=…, reward=…, terminated=…, truncated=…)"
        )

    call = "restart(key, state, params)"
    restarted = _traced(problems, call, env.restart, key, state, params)
    if restarted is not None and _is_pair(problems, "restart", restarted):
        problems += _check_array("restart's observation", restarted[1], env.observation_space)
        problems += _check_same("restart", restarted[0], state)
    return problems


def _is_pair(problems: list[str], method: str, result: Any) -> bool:
    if isinstance(result, tuple) and len(result) == 2:
        return True
    problems.append(
        f"{method} returned a {type(result).__name__}"
        + (f" of {len(result)}" if isinstance(result, tuple) else "")
        + "; return the pair (state, observation)"
    )
    return False


def _check_step(env: Any, stepped: Step, state: Any) -> list[str]:
    problems = _check_array("step's observation", stepped.observation, env.observation_space)
    for field, kind, example in (
        ("reward", jnp.floating, "jnp.float32(1.0)"),
        ("terminated", jnp.bool_, "jnp.asarray(False)"),
        ("truncated", jnp.bool_, "jnp.asarray(False)"),
    ):
        value = getattr(stepped, field)
        if not isinstance(value, jax.ShapeDtypeStruct):
            problems.append(
                f"step's {field} is {value!r}, of type {type(value).__name__}; it must be a JAX "
                f"array, such as {example}"
            )
        elif value.shape != () or not jnp.issubdtype(value.dtype, kind):
            wanted = "real" if field == "reward" else "Boolean"
            problems.append(
                f"step's {field} has shape {value.shape} and dtype {value.dtype}; it must be a "
                f"{wanted} scalar, such as {example}"
            )
    return problems + _check_same("step", stepped.state, state)


def _check_array(what: str, value: Any, space: Space) -> list[str]:
    if not isinstance(value, jax.ShapeDtypeStruct):
        return [
            f"{what} is {value!r}, of type {type(value).__name__}; it must be one JAX array, which "
            "jnp.asarray makes of it"
        ]
    problems = []
    if value.shape != space.shape:
        problems.append(f"{what} has shape {value.shape}; observation_space says {space.shape}")
    if value.dtype != np.dtype(space.dtype):
        problems.append(
            f"{what} has dtype {value.dtype}; observation_space says {np.dtype(space.dtype)}. "
            "Change the space's dtype, or convert with .astype"
        )
    return problems


def _check_same(method: str, state: Any, first: Any) -> list[str]:
    """Problems of a state whose structure, shapes or dtypes differ from those of `reset`."""
    why = "a compiled loop carries the state, which must always look like reset's"
    ours, theirs = jax.tree.structure(state), jax.tree.structure(first)
    if ours != theirs:
        return [f"{method} returns a state of structure {ours}, and reset {theirs}; {why}"]
    new, old = (jax.eval_shape(lambda tree: tree, tree) for tree in (state, first))
    return [
        f"state{jax.tree_util.keystr(path)} is {_describe(a)} after {method}, and {_describe(b)} "
        f"after reset; {why}"
        for (path, a), b in zip(
            jax.tree_util.tree_leaves_with_path(new), jax.tree.leaves(old), strict=True
        )
        if (a.shape, a.dtype) != (b.shape, b.dtype)
    ]


def _describe(leaf: jax.ShapeDtypeStruct) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def _traced(problems: list[str], call: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result with a shape in place of each JAX array; None if it raised."""
    result: Any = None

    def record(*arguments: Any) -> Any:
        nonlocal result
        returned = function(*arguments)
        result = jax.tree.map(_shape_of, returned)
        return returned

    try:
        jax.eval_shape(record, *arguments)
    except Exception as error:  # other people's code may raise anything
        problems.append(explain(f"{call} cannot be compiled", error))
        return None
    return result


def _shape_of(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array) else leaf
