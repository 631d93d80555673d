"""One trained agent, read from the folder of a run, or from a file that an agent was saved to.

A run may be read while another process trains it: nothing in its folder changes. Tables are read
only where the best of several seeds is asked for, and Parquet is needed for nothing else.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from eligrad._base.optional import needs_train
from eligrad.agents import registry
from eligrad.agents.protocol import Agent, Transition, observation_struct
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.names import module_of
from eligrad.envs.registry import as_environment
from eligrad.envs.spaces import Box, Space, space_from_json, space_to_json
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError
from eligrad.runs.plan import Plan, plan_in_file, read_config

ONLINE = "online"
"""The kind of file that `Online.save` writes."""
Which = int | Literal["best"]
"""A seed of the run, or the one whose last episodes had the highest mean return."""


class Spaces(NamedTuple):
    """What an agent is built for."""

    name: str
    observation_space: Space
    action_space: Space
    first_action: Any = 0
    """The first of its choices, which agents count from 0: `HostEnvironment.first_action`."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """One agent as it was saved."""

    agent: Agent
    state: Any
    key: PRNGKeyArray
    """Of its random numbers."""
    step: int
    """Environment steps that it has learned from."""
    plan: Plan
    """Of this run alone."""
    spaces: Spaces | None
    """None for a file of `Online` with an agent of the user's own."""
    observation: jax.ShapeDtypeStruct
    """Shape and dtype of what the agent observes."""
    ending: Transition | None = None
    """The end of an episode on a stream, to be learned from with the next first observation."""

    @property
    def seed(self) -> int:
        """The seed that it was trained with."""
        return self.plan.seeds[0]


def read_agent(
    run: str | Path, seed: Which = "best", *, agent: Agent | None = None, env: Any = None
) -> Trained:
    """One agent of a run folder's newest intact checkpoint, or of a file that one was saved to.

    Args:
        run: the folder; or a file that an agent of the facade, or `Online`, was saved to.
        seed: which one, if there are several.
        agent: the agent again, if it is a custom one.
        env: the environment again, if it is a custom one.
    """
    path = Path(run).expanduser()
    if path.is_dir():
        return _from_folder(path, seed, agent, env)
    if not path.exists():
        raise FileNotFoundError(f"there is no run {path}")
    with checkpoint.Reader(path) as reader:
        header = reader.about["header"]
        if header.get("kind") == ONLINE:
            return _from_stream(path, header, agent)

        def tables() -> Any:
            from eligrad.runs.metrics import Tables, from_bytes

            raw = ((name, reader.array(name).tobytes()) for name in Tables._fields)
            return Tables(*(from_bytes(table, name, plan.seeds, path) for name, table in raw))

        plan = plan_in_header(header, path)
        return _from_run(reader, header, plan, path, tables, seed, agent, env, "state/")


def _from_folder(path: Path, seed: Which, agent: Agent | None, env: Any) -> Trained:
    # Not RunFolder.open and restore, which clear away what a training in progress still needs.
    config = read_config(path)
    plan = plan_in_file(config["plan"], path / "config.json")

    def tables() -> Any:
        from eligrad.runs.folder import RunFolder

        return RunFolder(path).tables()

    trouble: Exception = FileNotFoundError(
        f"{path} has no checkpoint yet; the first is written at step {plan.checkpoint_every:,}"
    )
    for file in reversed(checkpoint.in_folder(path)):
        try:
            with checkpoint.Reader(file) as reader:
                return _from_run(reader, config, plan, path, tables, seed, agent, env, "")
        # Damaged, or replaced by a newer one at this very moment.
        except (DamagedCheckpointError, FileNotFoundError) as error:
            trouble = error
    raise trouble


def _from_run(
    reader: checkpoint.Reader,
    about: dict[str, Any],
    plan: Plan,
    path: Path,
    tables: Callable[[], Any],
    seed: Which,
    agent: Agent | None,
    env: Any,
    at: str,
) -> Trained:
    if plan.agent is not None and agent is not None:
        raise ValueError(f"the agent of {path} is {plan.agent!r}: pass no other")
    if plan.agent is None and agent is None:
        raise _is_custom(path)
    step, seeds = reader.about["header"]["step"], plan.seeds
    if seed == "best":
        index = 0 if len(seeds) == 1 else _best(tables, seeds, step)
    elif seed in seeds:
        index = seeds.index(seed)
    else:
        raise ValueError(f'seed is {seed}; "best", or one of {seeds}, is accepted')
    own = plan.settings if plan.agent is None else registry.of_runs(plan.settings, index)
    plan = dataclasses.replace(plan, settings=own, seeds=[seeds[index]])
    made = environment_of(plan, path, env)
    check_same_actions(about, path, made)
    first = made.first_action if isinstance(made, HostEnvironment) else 0
    spaces = Spaces(made.name, made.observation_space, made.action_space, first)
    agent = agent or registry.build(str(plan.agent), plan.settings, spaces)
    observation = observation_struct(agent, made.observation_space)
    like = jax.eval_shape(agent.init, jax.eval_shape(jax.random.key, 0), observation)
    state = _one_state(reader, like, index, len(seeds), f"{at}agent")
    keys = jax.random.split(jax.random.key(0), len(seeds))
    key = reader.leaf(f"{at}agent_key", keys)[index]
    return Trained(agent, state, key, step, plan, spaces, observation)


def _best(tables: Callable[[], Any], seeds: list[int], step: int) -> int:
    with needs_train(f'seed="best", one of {len(seeds)},'):
        from eligrad.runs.summary import best_run

        return best_run(tables(), seeds, step)


def _one_state(reader: checkpoint.Reader, like: Any, index: int, count: int, at: str) -> Any:
    """The state of one agent out of `count`; no other leaf of the file is read."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for path, leaf in leaves:
        name = f"{at}/{jax.tree_util.keystr(path, simple=True, separator='/')}"
        every = jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype)
        restored.append(jnp.asarray(reader.leaf(name, every)[index]))
    return jax.tree.unflatten(structure, restored)


def check_same_settings(agent: Agent, plan: Plan, path: Path) -> None:
    """Raises CheckpointError if an agent has other settings than the one that was saved."""
    ours = registry.to_json(agent.config)
    for name, theirs in plan.to_json()["settings"].items():
        if ours.get(name) != theirs:
            raise CheckpointError(
                f"{path} was saved with {name} = {theirs}; that of agent is {ours.get(name)}"
            )


def check_same_actions(
    about: dict[str, Any], path: Path, env: Environment | HostEnvironment
) -> None:
    """Refuses an environment with other actions than those that the agent was trained with.

    Bounds count, since a policy scales its actions to them. `about` is what the file says.
    """
    trained = about.get("actions")
    if trained is not None and space_from_json(trained) != env.action_space:
        raise ValueError(
            f"the agent of {path} was trained with the actions {trained}; those of {env.name!r} "
            f"are {space_to_json(env.action_space)}"
        )


def _from_stream(path: Path, header: dict[str, Any], agent: Agent | None) -> Trained:
    """The agent of a file that `Online.save` wrote; no environment is made."""
    blank = _blank_observation(header, path)
    if "plan" in header:
        plan = plan_in_file(header["plan"], path)
    elif agent is not None:
        plan = stream_plan(None, header.get("settings", {}), 0)
    else:
        raise CheckpointError(
            f"{path} does not say which agent it holds, as an earlier version wrote it; "
            "Online.load(path, agent) continues it, with the same settings and network"
        )
    spaces = None
    if header.get("actions") is not None:
        observations = Box(-np.inf, np.inf, blank.shape, blank.dtype)
        first = np.asarray(header.get("first_action", 0))
        spaces = Spaces(str(path), observations, space_from_json(header["actions"]), first)
    if agent is not None:
        check_same_settings(agent, plan, path)
    if agent is None:
        if plan.agent is None or spaces is None:
            raise _is_custom(path)
        agent = registry.build(plan.agent, plan.settings, spaces)
    observation = jax.eval_shape(jnp.asarray, blank)
    state = jax.eval_shape(agent.init, jax.eval_shape(jax.random.key, 0), observation)
    ending = Transition(np.float32(0), np.bool_(0), np.bool_(0), blank, blank)
    like = (jax.random.key(0), state, ending if header["ending"] else None)
    (key, state, ended), _ = checkpoint.load(path, like)
    state = jax.tree.map(jnp.asarray, state)
    struct = jax.ShapeDtypeStruct(blank.shape, blank.dtype)
    return Trained(agent, state, key, header["steps"], plan, spaces, struct, ended)


def _blank_observation(header: dict[str, Any], path: Path) -> np.ndarray:
    """Zeros of the shape and dtype that a file says; the file itself holds several as large."""
    try:
        shape, dtype = tuple(map(operator.index, header["shape"])), np.dtype(header["dtype"])
        if dtype.kind in "biuf" and 0 <= math.prod(shape) <= path.stat().st_size:
            return np.zeros(shape, dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpointError(f"{path} is damaged: {error}") from error
    raise DamagedCheckpointError(
        f"{path} is damaged: its observations would be of shape {shape} and dtype {dtype}"
    )


def stream_plan(agent: str | None, settings: Any, seed: int) -> Plan:
    """The plan of an agent on a stream: it names no environment and no number of steps."""
    return Plan(agent, settings, None, None, {}, [seed], steps=1, chunk=1, checkpoint_every=1)


def _is_custom(path: Path) -> ValueError:
    return ValueError(f"the agent of {path} is a custom one, made in Python: pass agent= again")


def environment_of(plan: Plan, path: Path, given: Any = None) -> Environment | HostEnvironment:
    """The environment of a plan that a file holds, or the one given in its place.

    A module that a file names is not imported: a user who trusts it imports it first.
    """
    if given is not None:
        made = isinstance(given, Environment | HostEnvironment)
        return as_environment(given, None if made else plan.max_episode_steps, plan.info)
    if plan.env is None:
        raise ValueError(
            f"{path} names no environment, as it was a custom one or a stream: pass env= "
            "(--env NAME to a command)"
        )
    check_imported(plan.env, path)
    return as_environment(plan.env, plan.max_episode_steps, plan.info)


def check_imported(env: str, path: Path) -> None:
    """Refuses the name of an environment in a file whose module has not been imported."""
    module = module_of(env)
    if module is not None and module not in sys.modules:
        raise ValueError(
            f"the environment of {path} is {env!r}: to make it, the code of {module!r} would "
            f"be run. If you trust that, import it first; a command does it with --import {module}"
        )


def plan_in_header(header: dict[str, Any], path: Path) -> Plan:
    """The plan in the header of a file that an agent was saved to; others are refused."""
    if "plan" not in header or not {"step", "steps"} & header.keys():
        raise CheckpointError(
            f"{path} is a checkpoint, but not the save of an agent; such a file, or the folder of "
            "a run, is accepted"
        )
    return plan_in_file(header["plan"], path)
