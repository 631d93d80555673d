"""Where TDRC(λ) is stable: regions of β and λ on three problems, for each regulariser of h.

    python -m benchmarks.stability --out docs/images/stability.png

Every point is a certificate, `problems.stability`: nothing is sampled. Takes about a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from eligrad import problems
from eligrad.rules import Regularize

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PROBLEMS = {
    "baird": "Baird's counterexample\noff-policy, linear",
    "spiral": "Tsitsiklis & Van Roy's spiral\non-policy, nonlinear",
    "boyan_chain": "Boyan's chain\non-policy, linear",
}
ROWS: dict[Regularize, str] = {
    "parameters": 'β on the parameters of h\n"parameters", "head"',
    "output": 'β on h itself\n"output"',
}
BETAS, LAMBDAS = np.logspace(-3, 3, 121), np.linspace(0, 1, 61)
STABLE, UNSTABLE = "#9ecae1", "#D55E00"


def slowest_modes(name: str, regularize: Regularize) -> np.ndarray:
    """The slowest mode at every λ (rows) and β (columns)."""
    problem = problems.get(name)
    return np.array(
        [
            [
                problems.stability(
                    problem, "tdrc", float(lam), beta=float(beta), regularize=regularize
                ).slowest
                for beta in BETAS
            ]
            for lam in LAMBDAS
        ]
    )


def draw(axis: Axes, slowest: np.ndarray) -> None:
    """Two regions, their border, and their names."""
    axis.contourf(BETAS, LAMBDAS, slowest, levels=[-np.inf, 0, np.inf], colors=[STABLE, UNSTABLE])
    if slowest.max() > 0:
        axis.contour(BETAS, LAMBDAS, slowest, levels=[0], colors="black", linewidths=1)
        axis.text(
            0.97, 0.05, "unstable", ha="right", color="white", weight="bold",
            transform=axis.transAxes,
        )  # fmt: skip
    axis.text(0.03, 0.92, "stable", weight="bold", transform=axis.transAxes)
    axis.axvline(1, color="black", linestyle=":", linewidth=1)
    axis.set(xscale="log", xlim=(BETAS[0], BETAS[-1]), ylim=(0, 1))


def figure(path: Path) -> None:
    fig, axes = plt.subplots(
        len(ROWS), len(PROBLEMS), figsize=(11, 6), sharex=True, sharey=True, squeeze=False
    )
    for row, (regularize, row_title) in zip(axes, ROWS.items(), strict=True):
        for axis, name in zip(row, PROBLEMS, strict=True):
            draw(axis, slowest_modes(name, regularize))
        row[0].set_ylabel(f"{row_title}\n\nλ")
    for axis, title in zip(axes[0], PROBLEMS.values(), strict=True):
        axis.set_title(title)
    for axis in axes[-1]:
        axis.set_xlabel("β\n← TDC(λ)                              TD(λ) →")
    note = "TDRC(λ), h linear in the inputs, one step size for v and h. Dotted: β = 1, the paper's."
    fig.text(0.5, 0.01, note, ha="center")
    fig.tight_layout(rect=(0, 0.03, 1, 1))
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images/stability.png"))
    figure(parser.parse_args().out)


if __name__ == "__main__":
    main()
