"""Short runs of every agent, compared with files of earlier ones.

    python tests/golden/curves.py            compares, and says what differs
    python tests/golden/curves.py qrc ppo    compares these
    python tests/golden/curves.py --write    writes the files again: only for an intended change

Needs nothing of the repository but the files beside it, so that an installed eligrad can be asked.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eligrad.agents import PRESETS
from eligrad.training import train

FOLDER = Path(__file__).parent
SEEDS = [0, 1]
CLOCKS = {"seconds", "steps_per_second", "rollout_seconds", "update_seconds"}
KEYS = {"run", "seed", "step", "diverged_step"}
RTOL, ATOL = 3e-4, 3e-6
"""Between rounding and a change. Without most of XLA's optimisations, or with jax 0.10.0 in place
of 0.10.2, numbers of these runs moved by less than 4e-5; with γ = 0.989 for 0.99 by 2e-3."""


class Run(NamedTuple):
    """What is trained: many short episodes, of which some end and some are cut off."""

    agent: str
    env: str
    options: dict[str, Any]


_STREAM = {"steps": 200, "chunk": 50, "max_episode_steps": 2, "epsilon_end": 0.1}
_ROLLOUT = {
    "steps": 256, "rollout": 64, "minibatch_size": 32, "max_episode_steps": 2,
    "actor_step_size": 0.01, "critic_step_size": 0.01,
}  # fmt: skip
# A slow policy: it goes on to see all of the town.
_ACTOR_CRITIC = {"steps": 200, "chunk": 50, "max_episode_steps": 2, "actor_step_size": 1e-4}
_TOWN = "Probe/OffPolicy-v0"
_OWN: dict[str, dict[str, Any]] = {
    "qrc": _STREAM | {"step_size": 1e-3, "optimizer": "sgd", "regularize": "parameters"},
    "stream-q": _STREAM,
    "ppo": _ROLLOUT,
    "gradient-ppo": _ROLLOUT | {"sequence": 16},
    "stream-ac": _ACTOR_CRITIC,
    "gradient-ac": _ACTOR_CRITIC,
}
RUNS = {
    # The paper's step size is for millions of steps.
    name: Run(name, _TOWN, _OWN.get(name, _STREAM | {"step_size": 1e-3}))
    for name in PRESETS
} | {
    "qrc-output": Run("qrc", _TOWN, _STREAM | {"step_size": 1e-3, "optimizer": "sgd"}),
    "qrc-vectors": Run("qrc", _TOWN, _STREAM),
    "gradient-ppo-continuous": Run(
        "gradient-ppo", "Probe/Continuous-v0", _OWN["gradient-ppo"] | {"max_episode_steps": None}
    ),
    "gradient-ac-continuous": Run(
        "gradient-ac", "Probe/Continuous-v0", _ACTOR_CRITIC | {"max_episode_steps": None}
    ),
}
"""Every agent by its name, of QRC(λ) three, and two with real numbers for actions."""


def trained(run: Run, **changes: Any) -> dict[str, Any]:
    """The curve of a run: episodes by seed, and each diagnostic by seed and chunk."""
    result = train(run.agent, run.env, seeds=SEEDS, **(run.options | changes))
    episodes, chunks = result.episodes.to_pandas(), result.chunks.to_pandas()
    by_seed = [episodes[episodes["seed"] == seed] for seed in SEEDS]
    return {
        "length": [mine["length"].tolist() for mine in by_seed],
        "return": [mine["return"].tolist() for mine in by_seed],
    } | {
        name: [chunks[chunks["seed"] == seed][name].tolist() for seed in SEEDS]
        for name in sorted(set(chunks.columns) - CLOCKS - KEYS)
    }


def kept(name: str) -> dict[str, Any]:
    """The curve that was written down."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, curve: dict[str, Any]) -> None:
    """Writes a curve down, a line for each seed and quantity."""
    quantities = []
    for key, rows in curve.items():
        text = ",\n".join(json.dumps([_short(number) for number in row]) for row in rows)
        quantities.append(f'"{key}": [\n{text}\n]')
    lines = ",\n".join(quantities)
    (FOLDER / f"{name}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _short(number: float) -> float | int:
    """With the seven digits that a float32 has."""
    return number if isinstance(number, int) else float(f"{number:.7g}")


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Describes where two curves differ by more than rounding; empty if they are the same."""
    if not theirs.keys() <= ours.keys():  # new metrics may come, none may go
        return [f"quantities {sorted(ours)} and {sorted(theirs)}"]
    found = []
    for name in theirs:
        rows = ours[name]
        for seed, mine, other in zip(SEEDS, rows, theirs[name], strict=True):
            if len(mine) != len(other):
                found.append(f"{name} of seed {seed}: {len(mine)} and {len(other)} numbers")
                continue
            a, b = np.asarray(mine, float), np.asarray(other, float)
            wrong = a != b if name == "length" else ~np.isclose(a, b, rtol=RTOL, atol=ATOL)
            if wrong.any():
                at = int(np.argmax(wrong))
                found.append(f"{name} of seed {seed}, number {at}: {a[at]:.8g} and {b[at]:.8g}")
    return found


def main() -> int:
    """Compares or writes all curves; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*RUNS, []], help="of runs; all without any")
    parser.add_argument("--write", action="store_true", help="write the files again")
    given = parser.parse_args()
    wrong = 0
    for name in given.names or RUNS:
        curve = trained(RUNS[name])
        if given.write:
            write(name, curve)
            continue
        found = differences(curve, kept(name))
        wrong += bool(found)
        print(f"{name}: {'the same' if not found else '; '.join(found)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
