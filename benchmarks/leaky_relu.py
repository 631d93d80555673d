"""Does it matter which slope the leaky ReLU has at exactly 0? JAX says 1, PyTorch 0.01.

    python -m benchmarks.leaky_relu --slope 1
    python -m benchmarks.leaky_relu --slope 0.01
    python -m benchmarks.leaky_relu --slope 0.01 --long

The first observation is normalised to zeros and biases begin at 0, so that the very first
update goes through that point in every unit. Writes `results/leaky_relu/slope-….json`; with
`--long` runs of a million steps, to compare with those of `results/minatar-1m`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import learning
from eligrad._base.files import write_json
from eligrad.runs.provenance import provenance
from eligrad.training import train

GAMES = ("Breakout", "Freeway", "Seaquest", "Asterix", "SpaceInvaders")
AGENTS: dict[str, dict[str, Any]] = {"q-lambda": {}, "qrc": {"regularize": "parameters"}}
"""With the settings in which they differ from the presets."""
STEPS, LAST = 200_000, 20_000
LONG_GAMES, LONG_AGENTS, LONG_STEPS = ("Breakout", "SpaceInvaders"), ("qrc", "stream-q"), 1_000_000
"""As in `results/minatar-1m`, whose runs have slope 1."""
LONG_STUDY = "leaky_relu/1m"


def leaky_relu_of_pytorch(x: jax.Array, negative_slope: float = 0.01) -> jax.Array:
    """The same function, whose derivative at 0 is that from the left."""
    return jnp.where(x > 0, x, negative_slope * x)


def play(agent: str, game: str, seeds: int) -> dict[str, Any]:
    result = train(agent, f"MinAtar/{game}-v1", steps=STEPS, seeds=seeds, **AGENTS[agent])
    episodes = result.episodes.to_pandas()
    late = episodes[episodes["step"] > STEPS - LAST].groupby("seed")["return"].mean()
    returns = late.reindex(range(seeds)).to_numpy()
    return {
        "game": game,
        "agent": agent,
        "mean": float(np.nanmean(returns)),
        "standard_error": float(np.nanstd(returns, ddof=1) / np.sqrt(seeds)),
        "diverged": result.summary["diverged"],
        "returns": returns.tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slope", type=float, choices=(1.0, 0.01), required=True)
    parser.add_argument("--long", action="store_true", help="a million steps")
    parser.add_argument("--games", nargs="+", default=LONG_GAMES, help="of --long")
    parser.add_argument("--agents", nargs="+", default=LONG_AGENTS, help="of --long")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("results/leaky_relu"))
    arguments = parser.parse_args()
    if arguments.slope != 1.0:
        jax.nn.leaky_relu = leaky_relu_of_pytorch
    if arguments.long:
        if arguments.slope == 1.0:
            parser.error("benchmarks.minatar_learning makes the long runs with slope 1")
        envs, seeds = [f"MinAtar/{game}-v1" for game in arguments.games], range(arguments.seeds)
        steps, out = dict.fromkeys(envs, LONG_STEPS), arguments.out / "1m"
        learning.measure(envs, arguments.agents, steps, seeds, out, chunk=20_000)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for game in GAMES:
        for agent in AGENTS:
            rows.append(play(agent, game, arguments.seeds))
            told = {name: value for name, value in rows[-1].items() if name != "returns"}
            print(told, flush=True)
            path = arguments.out / f"slope-{arguments.slope}.json"
            write_json(path, {"runs": rows, "made_by": provenance()})


if __name__ == "__main__":
    main()
