"""Training sessions and trained agents in files.

`save` writes a whole session to one file: agents, traces, statistics, simulators, metrics and the
plan; `load` continues from there, or from a copy of a run folder. `read_agent` reads one agent
alone. A run may be read while another process trains it: nothing in its folder changes.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from eligrad.agents import registry
from eligrad.agents.protocol import Agent, observation_struct
from eligrad.envs import Environment, HostEnvironment, make
from eligrad.envs.registry import change_params
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError
from eligrad.runs.config import Plan, plan_in_file
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables, from_bytes, to_bytes
from eligrad.runs.provenance import provenance
from eligrad.runs.summary import best_run
from eligrad.training.build import build_engine, environment_of
from eligrad.training.build import title as run_title
from eligrad.training.session import Session

Which = int | Literal["best"]
"""A seed of the run, or the one whose last episodes had the highest mean return."""


@dataclasses.dataclass(frozen=True)
class Saved:
    """One agent as it was saved, and the environment it was trained in."""

    agent: Agent
    state: Any
    env: Environment | HostEnvironment
    params: Any
    title: str
    seed: int
    step: int
    """Environment steps that it had learned from."""


def read_agent(run: str | Path, seed: Which = "best", *, frames: bool = False) -> Saved:
    """The agent of a run folder's newest intact checkpoint, or of a file that a facade saved.

    With `frames`, an environment of Gymnasium is made so that it draws itself.
    """
    path = Path(run)
    if path.is_dir():
        return _from_folder(path, seed, frames)
    if not path.exists():
        raise FileNotFoundError(f"there is no run {path}")
    with checkpoint.Reader(path) as reader:
        plan = plan_in_header(reader.about["header"], path)
        tables = Tables(
            *(
                from_bytes(reader.array(name).tobytes(), name, plan.seeds, path)
                for name in Tables._fields
            )
        )
        return _read(reader, plan, path, tables, seed, frames, "state/agent")


def _from_folder(path: Path, seed: Which, frames: bool) -> Saved:
    # Not RunFolder.open and restore, which clear away what a training in progress still needs.
    folder = RunFolder(path)
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path} is not a run folder: it has no config.json")
    plan = plan_in_file(folder.config["plan"], path / "config.json")
    trouble: Exception = FileNotFoundError(
        f"{path} has no checkpoint yet; the first is written at step {plan.checkpoint_every:,}"
    )
    for file in reversed(folder.checkpoints()):
        try:
            with checkpoint.Reader(file) as reader:
                return _read(reader, plan, path, folder.tables(), seed, frames, "agent")
        # Damaged, or replaced by a newer one at this very moment.
        except (DamagedCheckpointError, FileNotFoundError) as error:
            trouble = error
    raise trouble


def _read(
    reader: checkpoint.Reader,
    plan: Plan,
    path: Path,
    tables: Tables,
    seed: Which,
    frames: bool,
    at: str,
) -> Saved:
    step = reader.about["header"]["step"]
    if plan.agent is None or plan.env is None:
        raise ValueError(
            "the run has an agent or environment that was made in Python; record it there, "
            "with eligrad.training.recording.record(agent, state, env)"
        )
    if seed == "best":
        index = best_run(tables, plan.seeds, step)
    elif seed in plan.seeds:
        index = plan.seeds.index(seed)
    else:
        raise ValueError(f'seed is {seed}; "best", or one of {plan.seeds}, is accepted')
    env = environment_of(plan, path)
    agent = registry.build(plan.agent, registry.of_runs(plan.settings, index), env)
    state = _agent_state(reader, agent, env, index, len(plan.seeds), at)
    if frames and isinstance(env, HostEnvironment):
        env = _drawing_itself(plan.env, plan.max_episode_steps)
    return Saved(
        agent=agent,
        state=state,
        env=env,
        params=change_params(env, plan.env_params),
        title=run_title(plan, env),
        seed=plan.seeds[index],
        step=step,
    )


def _agent_state(
    reader: checkpoint.Reader, agent: Agent, env: Any, index: int, count: int, at: str
) -> Any:
    """The state of one agent out of `count`; no other leaf of the file is read."""
    observation = observation_struct(agent, env.observation_space)
    like = jax.eval_shape(agent.init, jax.eval_shape(jax.random.key, 0), observation)
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for path, leaf in leaves:
        name = f"{at}/{jax.tree_util.keystr(path, simple=True, separator='/')}"
        every = jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype)
        restored.append(jnp.asarray(reader.leaf(name, every)[index]))
    return jax.tree.unflatten(structure, restored)


def _drawing_itself(name: str, max_episode_steps: int | None) -> Environment | HostEnvironment:
    try:
        return make(name, max_episode_steps=max_episode_steps, render_mode="rgb_array")
    # Environments of other people may raise anything when they render.
    except Exception as error:
        raise ValueError(f"{name!r} cannot be drawn: {error}") from error


def save(session: Session, path: str | Path, learner: str | None = None) -> None:
    """Writes all that `load` needs to continue as if training had never stopped.

    `learner` names the preset of an agent that has a custom network.
    """
    header = {"step": session.step, "plan": session.plan.to_json()} | {
        "learner": learner, "provenance": provenance(),
    }  # fmt: skip
    checkpoint.save(Path(path), _contents(session.engine.state, session.tables()), header)


def load(path: str | Path, *, agent: Agent | None = None, env: Any = None) -> Session:
    """The session that was saved, or a copy of the one in a run folder, which stays as it is.

    A custom agent or environment must be given again.
    """
    path = Path(path)
    plan = read_plan(path)
    environment = environment_of(plan, path, env)
    if agent is None:
        if plan.agent is None:
            raise ValueError(f"the agent of {path} is a custom one: pass agent= again")
        agent = registry.build(plan.agent, plan.settings, environment)
    session = Session(plan, agent, environment, build_engine(plan, agent, environment))
    if path.is_dir():
        folder = RunFolder(path)
        found = folder.newest(session.engine.state)
        session.go_on_from(found.step, found.state, found.file)
        session.saved = [folder.tables(found.step, without=found.lost)]
        return session
    contents, header = checkpoint.load(path, _contents(session.engine.state, session.tables()))
    session.go_on_from(header["step"], contents["state"], path)
    parts = (from_bytes(contents[name], name, plan.seeds, path) for name in Tables._fields)
    session.saved = [Tables(*parts)]
    return session


def read_plan(path: str | Path) -> Plan:
    """What was trained, as `config.json` of a run would say it."""
    path = Path(path)
    if path.is_dir():
        return plan_in_file(RunFolder.open(path).config["plan"], path / "config.json")
    return plan_in_header(checkpoint.read_header(path), path)


def preset_of(path: str | Path) -> str | None:
    """The name of the agent in a file or folder, or None for a custom one."""
    path = Path(path)
    learner = None if path.is_dir() else checkpoint.read_header(path).get("learner")
    return read_plan(path).agent or learner


def plan_in_header(header: dict[str, Any], path: Path) -> Plan:
    """The plan in the header of a file that `save` wrote; others are refused."""
    if "plan" not in header or not isinstance(header.get("step"), int):
        raise CheckpointError(
            f"{path} is a checkpoint, but not the save of an agent; such a file, or the folder of "
            "a run, is accepted"
        )
    return plan_in_file(header["plan"], path)


def _contents(state: Any, tables: Tables) -> dict[str, Any]:
    return {"state": state} | {name: to_bytes(table) for name, table in tables._asdict().items()}
