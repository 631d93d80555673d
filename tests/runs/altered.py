"""Files of every kind that eligrad reads, and ways to alter them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad.agents import make_settings
from eligrad.agents.registry import to_json
from eligrad.analysis import load_episodes, load_runs
from eligrad.runs import checkpoint
from eligrad.runs.configuration import Configuration, Run
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import CHUNKS, EPISODES, Tables, from_bytes, to_bytes
from eligrad.runs.plan import read_config
from eligrad.sweeps.jobs import Job
from eligrad.sweeps.store import Store

STEPS = 400
PLAN = {
    "agent": "qrc", "settings": to_json(make_settings("qrc", {})), "env": "Probe/Trace-v0",
    "max_episode_steps": None, "env_params": {}, "seeds": [3, 4], "steps": STEPS, "chunk": 100,
    "checkpoint_every": 100,
}  # fmt: skip
SUMMARY = {
    "steps": STEPS,
    "seeds": [{"seed": seed, "return_last": 0.25 * seed, "diverged_step": None} for seed in (3, 4)],
    "seconds": 1.5,
    "steps_per_second": 266.5,
    "finished": True,
}


def tables(rows: int = 40) -> Tables:
    """Episodes of two runs, and a chunk of each."""
    run = np.arange(rows) % 2
    episodes = [run, run + 3, 10 + np.arange(rows), np.sin(np.arange(rows)), 1 + run]
    chunks = [[0, 1], [3, 4], [STEPS] * 2, [1.5] * 2, [266.5] * 2, [None, 17]]
    return Tables(
        *(
            pa.Table.from_arrays(
                [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)],
                schema=schema,
            )
            for columns, schema in ((episodes, EPISODES), (chunks, CHUNKS))
        )
    )


def state(scale: float = 1.0) -> dict[str, Any]:
    """What an engine might keep."""
    return {"w": scale * np.arange(6.0).reshape(2, 3), "step": np.array([7, 8]), "raw": b"\x00\xff"}


def write_run(path: Path) -> Path:
    """A run folder with two checkpoints, as training leaves it."""
    folder = RunFolder.create(path)
    folder.write_config({"plan": PLAN, "sessions": []})
    halves = Tables(*(table.slice(0, len(table) // 2) for table in tables()))
    rests = Tables(*(table.slice(len(table) // 2) for table in tables()))
    folder.save(STEPS // 2, state(0.5), halves, {"plan": PLAN})
    folder.save(STEPS, state(), rests, {"plan": PLAN})
    folder.write_summary(SUMMARY)
    return path


def write_archive(path: Path) -> Path:
    """A file like that of a learner's `save`, but for its small state."""
    content = {"state": state()} | {name: to_bytes(t) for name, t in tables()._asdict().items()}
    checkpoint.save(path, content, {"step": STEPS, "plan": PLAN})
    return path


JOB = Job(tuple(Run(Configuration.of_plan(PLAN, index), 3 + index) for index in range(2)))


def write_store(path: Path) -> Path:
    """A store in which a job was begun."""
    claim = Store(path).create().claim(JOB)
    assert claim is not None
    claim.release()
    return path


def plain(tree: Any) -> Any:
    """Arrays as what they hold, so that == compares."""
    if isinstance(tree, dict):
        return {name: plain(leaf) for name, leaf in tree.items()}
    return (str(tree.dtype), tree.shape, tree.tobytes()) if isinstance(tree, np.ndarray) else tree


def read_checkpoint(path: Path) -> Any:
    tree, header = checkpoint.load(path, state(9.0))
    return plain(tree), header


def read_archive(path: Path) -> Any:
    from eligrad.training import saved

    plan = saved.read_plan(path)
    like = {"state": state(9.0), "episodes": b"", "chunks": b""}
    content, header = checkpoint.load(path, like)
    read = [from_bytes(content[name], name, plan.seeds, path) for name in Tables._fields]
    return plain(content["state"]), header, [table.to_pydict() for table in read]


def read_metrics(path: Path) -> Any:
    """As a reader of many runs does it: a damaged run is named, and left out."""
    return _warned(path, lambda: load_episodes(path.parents[2]).to_dict("list"))


def read_outcome(path: Path) -> Any:
    # As text, since what is missing is NaN.
    return _warned(path, lambda: load_runs(path.parent).astype(str).to_dict("list"))


def read_jobs(path: Path) -> Any:
    return _warned(path, lambda: Store(path.parents[2]).jobs())


def _warned(path: Path, read: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = read()
    for warning in caught:
        assert warning.category is DamagedFileWarning
        raise DamagedFileError(str(warning.message))
    return content


KINDS: dict[str, tuple[Callable[[Path], Path], str, Callable[[Path], Any]]] = {
    "checkpoint": (write_run, f"checkpoint-{STEPS:012}.npz", read_checkpoint),
    "config": (write_run, "config.json", lambda path: read_config(path.parent)),
    "summary": (write_run, "summary.json", read_outcome),
    "episodes": (write_run, f"metrics/episodes/{STEPS:012}.parquet", read_metrics),
    "archive": (write_archive, "", read_archive),
    "job": (write_store, f"jobs/{JOB.id}/job.json", read_jobs),
}
"""How each kind is written, which file of it is altered, and how it is read."""


@st.composite
def alterations(draw: Any, content: bytes) -> bytes:
    """The content cut off, with some bytes others, or with some more or less of them."""
    place = st.integers(0, len(content) - 1)
    how = draw(st.sampled_from(["cut", "flip", "insert", "remove", "blank"]))
    if how == "cut":
        return content[: draw(place)]
    altered = bytearray(content)
    if how == "flip":
        for at in draw(st.lists(place, min_size=1, max_size=4)):
            altered[at] ^= draw(st.integers(1, 255))
        return bytes(altered)
    at, length = draw(place), draw(st.integers(1, 64))
    if how == "insert":
        altered[at:at] = draw(st.binary(min_size=1, max_size=64))
    else:
        altered[at : at + length] = bytes(length if how == "blank" else 0)
    return bytes(altered)


class Altered:
    """A file of one kind, to be altered again and again."""

    def __init__(self, kind: str, folder: Path) -> None:
        write, below, self._read = KINDS[kind]
        self.path = write(folder / "thing") / below
        self.content = self.path.read_bytes()
        self.right = self._read(self.path)

    def check(self, altered: bytes) -> None:
        """Asserts that it is read unchanged, or refused with its name."""
        self.path.write_bytes(altered)
        try:
            found = self._read(self.path)
        except (DamagedFileError, checkpoint.CheckpointError) as error:
            refusal = str(error)
        else:
            assert found == self.right or self._is_unsealed(found)
            return
        assert "thing" in refusal

    def _is_unsealed(self, found: Any) -> bool:
        """Where the very name of the checksum was altered, it is one name more."""
        return isinstance(found, dict) and found == self.right | {
            name: value for name, value in found.items() if name not in self.right
        }
