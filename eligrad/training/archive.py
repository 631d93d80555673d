"""A whole session in one file: agents, traces, statistics, simulators, metrics, and the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eligrad.agents import registry
from eligrad.agents.protocol import Agent
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.config import Plan, plan_in_file
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables, from_bytes, to_bytes
from eligrad.runs.provenance import provenance
from eligrad.training.build import build_engine, environment_of
from eligrad.training.session import Session


def save(session: Session, path: str | Path, learner: str | None = None) -> None:
    """Writes all that `load` needs to go on as if nothing had happened.

    `learner` names the preset of an agent that has a network made by hand.
    """
    header = {"step": session.step, "plan": session.plan.to_json()} | {
        "learner": learner, "provenance": provenance(),
    }  # fmt: skip
    checkpoint.save(Path(path), _contents(session.engine.state, session.tables()), header)


def load(path: str | Path, *, agent: Agent | None = None, env: Any = None) -> Session:
    """The session that was saved, or a copy of the one in a run folder, which stays as it is.

    An agent or environment made by hand must be given again.
    """
    path = Path(path)
    plan = read_plan(path)
    world = environment_of(plan, path, env)
    if agent is None:
        if plan.agent is None:
            raise ValueError(f"the agent of {path} was made by hand: pass agent= again")
        agent = registry.build(plan.agent, plan.settings, world)
    session = Session(plan, agent, world, build_engine(plan, agent, world))
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
    """The name of the agent in a file or folder, or None for one that was made by hand."""
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
