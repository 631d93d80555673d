"""A small sweep, its table and its figures.

    python examples/sweep_and_plot.py --steps 20000

Two agents, three step sizes, three seeds: 18 runs on Breakout, each trained once. Stop the program
whenever you like and start it again: finished runs are skipped, the others continue. The store is a
folder of run folders: `eligrad runs ls sweep` lists them, `eligrad report sweep` makes a page.
Three seeds and so few steps show how it is done; they do not show which agent is better.
"""

from pathlib import Path

import tyro

from eligrad.analysis import best_configurations, load_episodes, load_runs
from eligrad.analysis.figures import learning_curves, save, sensitivity_curves
from eligrad.sweeps import Sweep, run_sweep


def main(
    steps: int = 20_000,
    seeds: int = 3,
    env: str = "MinAtar/Breakout-v1",
    store: Path = Path("sweep"),
) -> list[Path]:
    """Trains what the store does not hold yet, and returns the pictures."""
    sweep = Sweep(
        agents=["qrc", "q-lambda"],
        envs=[env],
        steps=steps,
        seeds=seeds,
        fixed={"exploration_fraction": 0.5},
        grid={"step_size": [1e-3, 1e-4, 1e-5]},
    )
    report = run_sweep(sweep, store, progress=True)
    for run, traceback in report.failures.items():  # does not stop the others
        print(run, traceback)

    runs = load_runs(store)  # a DataFrame, one row for each run
    print(
        runs.groupby(["agent", "step_size"])["return_last"].agg(["mean", "sem", "count"]).round(2)
    )

    # How the score depends on the setting, and the learning curves of the best value of each agent.
    # The best of many on few seeds is partly luck: `eligrad two-stage` tries it on fresh seeds.
    best = runs[runs["config_hash"].isin(best_configurations(runs)["config_hash"])]
    figures = {
        store / "sensitivity.png": sensitivity_curves(runs, ["step_size"]),
        store / "curves.png": learning_curves(best, load_episodes(store)),
    }
    for path, figure in figures.items():
        save(figure, path)
        print(f"wrote {path}")
    return list(figures)


if __name__ == "__main__":
    tyro.cli(main)
