"""Training sessions in files.

`save` writes a whole session to one file: agents, traces, statistics, simulators, metrics and the
plan; `load` continues from there, from a copy of a run folder, or from what `Online` saved.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from eligrad._base.files import make_parents
from eligrad.agents import registry
from eligrad.agents.protocol import Agent
from eligrad.engines.online import Online
from eligrad.engines.trained import (
    ONLINE,
    check_same_actions,
    check_same_settings,
    environment_of,
    plan_in_header,
)
from eligrad.runs import checkpoint
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables, from_bytes, to_bytes
from eligrad.runs.plan import Plan, env_seeds, plan_in_file, read_config
from eligrad.runs.provenance import provenance
from eligrad.training.build import build_engine
from eligrad.training.session import Session


def save(session: Session, path: str | Path, learner: str | None = None) -> None:
    """Writes all that `load` needs to continue as if training had never stopped.

    `learner` names the preset of an agent that has a custom network.
    """
    header = session.config | {
        "step": session.step, "learner": learner, "provenance": provenance(),
    }  # fmt: skip
    path = Path(path).expanduser()
    make_parents(path)
    checkpoint.save(path, _contents(session.engine.state, session.tables()), header)


def load(path: str | Path, *, agent: Agent | None = None, env: Any = None) -> Session:
    """The session that was saved, or a copy of the one in a run folder, which stays as it is.

    An agent that `Online` saved begins a new episode. A custom agent or environment must be given
    again.
    """
    path = Path(path).expanduser()
    plan = read_plan(path)
    about = read_config(path) if path.is_dir() else checkpoint.read_header(path)
    environment = environment_of(plan, path, env)
    check_same_actions(about, path, environment)
    if isinstance(env, str):  # in place of one that had no name
        plan = dataclasses.replace(plan, env=env)
    if about.get("kind") == ONLINE:
        return _continue_stream(Online.load(path, agent), plan, environment)
    if agent is None:
        if plan.agent is None:
            raise ValueError(f"the agent of {path} is a custom one: pass agent= again")
        agent = registry.build(plan.agent, plan.settings, environment)
    check_same_settings(agent, plan, path)
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


def _continue_stream(online: Online, plan: Plan, env: Any) -> Session:
    """A session with the agent of a stream, which begins a new episode of the environment."""
    registry.check_fit(online.agent, env)
    engine: Any = build_engine(plan, online.agent, env)
    session = Session(plan, online.agent, env, engine)
    online.interrupt(engine.reset(env_seeds(plan.seeds, online.steps))[0])
    state, key = jax.tree.map(lambda leaf: leaf[None], (online.state, online.key))
    step = np.full(1, online.steps, np.int32)
    engine.state = engine.state._replace(agent=state, agent_key=key, step=step)
    session.step = session.saved_step = online.steps
    return session


def read_plan(path: str | Path) -> Plan:
    """What was trained, as `config.json` of a run would say it."""
    path = Path(path).expanduser()
    if path.is_dir():
        return plan_in_file(RunFolder.open(path).config["plan"], path / "config.json")
    return plan_in_header(checkpoint.read_header(path), path)


def preset_of(path: str | Path) -> str | None:
    """The name of the agent in a file or folder, or None for a custom one."""
    path = Path(path).expanduser()
    learner = None if path.is_dir() else checkpoint.read_header(path).get("learner")
    return read_plan(path).agent or learner


def _contents(state: Any, tables: Tables) -> dict[str, Any]:
    return {"state": state} | {name: to_bytes(table) for name, table in tables._asdict().items()}
