"""Sentences of the pages whose numbers follow from the runs; `results.py` looks for each of them.

Tables are written anew where the data change. A sentence may no longer be true then, so it is not
rewritten: whoever adds runs is told which sentences to look at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.classic_control import SOLVED
from benchmarks.minatar_learning import LOST
from benchmarks.questions import ROOT as RESULTS
from eligrad._base.files import read_json

Table = Any
ROOT = Path(__file__).parent.parent
TWO = tuple(SOLVED)


class Runs:
    """What sentences say of the runs of some studies."""

    def __init__(self, runs: Table, *studies: str) -> None:
        self.runs = runs[runs["study"].isin(studies)]

    def of(self, variant: str, *envs: str) -> Table:
        """The runs of a variant in these environments."""
        return self.runs[(self.runs["variant"] == variant) & self.runs["env"].isin(envs)]

    def diverged(self, variant: str, *envs: str) -> str:
        mine = self.of(variant, *envs)
        return share(mine["diverged"])

    def last_divergence(self, variant: str) -> int:
        """By when all runs that diverge have, rounded up to ten thousand steps."""
        last = int(self.runs[self.runs["variant"] == variant]["diverged_at"].max())
        return -(-last // 10_000) * 10_000

    def lost(self, variant: str) -> str:
        return share(self.of(variant, "Freeway")["final"] < LOST["Freeway"])

    def above(self, variant: str, env: str, mark: float) -> int:
        return int((self.of(variant, env)["final"] > mark).sum())

    def solved(self, variant: str, env: str) -> str:
        return share(self.of(variant, env)["final"] >= SOLVED[env])

    def times(self, variant: str, other: str, env: str) -> str:
        """How many times as high the mean of a variant is as that of another."""
        one, two = (self.of(each, env)["final"].mean() for each in (variant, other))
        return f"{one / two:.1f}" if two else "no"

    def with_error(self, variant: str, env: str, digits: int = 1) -> str:
        final = self.of(variant, env)["final"]
        return f"{final.mean():,.{digits}f} ± {final.sem():,.{digits}f}"


def share(which: Table) -> str:
    """How many of how many, as words: "none of 12", "5 of 12"."""
    return f"{int(which.sum()) or 'none'} of {len(which)}"


def upper_mode(runs: Table) -> Table:
    """Which runs on HalfCheetah end in the upper of the two modes of their returns."""
    return runs[runs["env"] == "HalfCheetah-v4"]["final"] > 2300


def of_all(share: str) -> str:
    """ "20 of 20" as "all of 20", and other shares as they are."""
    some, _, total = share.split()
    return f"all of {total}" if some == total else share


def sentences(runs: Table) -> dict[str, list[str]]:
    """By page, what must stand there."""
    five, both = Runs(runs, "minatar-5m"), Runs(runs, "minatar-5m", "h/stage-2")
    fresh, vectors = Runs(runs, "h/stage-2"), Runs(runs, "vectors/stage-2")
    short, million = Runs(runs, "minatar"), Runs(runs, "mujoco-1m")
    ahead = ("SpaceInvaders", "Asterix", "Seaquest")
    ratios, ratios_of_default = (
        "{}, {} and {} times".format(*(of.times(qrc, "stream-q", env) for env in ahead))
        for of, qrc in ((five, "qrc"), (fresh, "qrc-output"))
    )
    (without, last), (without_42, last_42) = (
        (of.diverged("q-lambda-sparse", *ahead[1:]), of.last_divergence("q-lambda-sparse"))
        for of in (five, both)
    )
    alive = five.of("qrc", "Freeway")["final"]
    alive = alive[alive >= LOST["Freeway"]]
    qc = five.of("qc", "Freeway")["final"]
    on_freeway = fresh.times("qrc-output", "stream-q", "Freeway")
    seaquest = [fresh.with_error(each, "Seaquest") for each in ("qrc-output", "qrc")]
    above = "above" if alive.min() > five.of("stream-q", "Freeway")["final"].max() else "not above"
    obgd = [vectors.solved("qrc-obgd", env) for env in TWO]
    both_tasks = obgd[0] if obgd[0] == obgd[1] else " and ".join(obgd)
    stream_q = [fresh.solved("stream-q", env).split()[0] for env in TWO]
    asterix, seaquest_q = (fresh.diverged("q-lambda-sparse", env) for env in ahead[1:])
    modes = [million.above(each, "HalfCheetah-v4", 3000) for each in ("ppo", "tdrc-fresh")]
    first = Runs(runs, "minatar-5m", "h/stage-1")
    paper = [first.solved("qrc", env) for env in TWO]
    output = [first.solved("qrc-output", env) for env in TWO]
    lost = {"none": "no"}.get(some := fresh.lost("qrc-output").split()[0], some)
    low = int((fresh.of("qrc", "Seaquest")["final"] < 8).sum())
    lowest = int(fresh.of("qrc-output", "Seaquest")["final"].min())
    sizes = [vectors.of("qrc-obgd", env)["h_to_td_error"] for env in TWO]
    sizes = [f"{100 * each.min():.0f} % to {100 * each.max():.0f} %" for each in sizes]
    counts = [
        [[solved.sum(), len(solved) - solved.sum()] for solved in both_agents]
        for both_agents in (
            (
                vectors.of("qrc-obgd", env)["final"] >= SOLVED[env],
                fresh.of("stream-q", env)["final"] >= SOLVED[env],
            )
            for env in TWO
        )
    ]
    fisher: Any = [stats.fisher_exact(table) for table in counts]
    soon = {
        task: " and ".join(
            f"{read_json(RESULTS / f'classic/{task}-{agent}.json')['solved_at']:,}"
            for agent in ("gradient-ppo", "ppo")
        )
        for task in ("CartPole-v1", "Pendulum-v1")
    }
    above_10 = {
        each: short.above(each, "Freeway", 10)
        for each in ("qrc", "stream-q", "qrc-h0.1", "qrc-watkins")
    }
    first_ppo = runs["study"].isin(("gradient-ppo/stage-1", "mujoco-1m")) & (runs["seed"] < 5)
    two, eight, plain = (
        share(upper_mode(runs[first_ppo & runs["variant"].isin(variants)]))
        for variants in (
            ("td-fresh-two", "tdrc-fresh-two", "tdrc-output-two"),
            ("td-fresh", "tdrc-fresh", "tdrc-head", "tdrc-output", "tdrc-features"),
            ("ppo",),
        )
    )
    second_ppo = Runs(runs, "gradient-ppo/stage-2")
    modes_2 = [
        share(upper_mode(second_ppo.of(variant, "HalfCheetah-v4")))
        for variant in ("tdrc-output-two", "ppo", "tdrc-fresh", "td-fresh-two")
    ]
    slip = Runs(runs, "recursion")
    ends = [
        f"{slip.with_error('tdrc-fresh-published', env, 0)} and "
        f"{slip.with_error('tdc-fresh-published', env, 0)}"
        for env in ("Hopper-v4", "HalfCheetah-v4")
    ]
    return {
        "README.md": [
            f"{asterix} of its runs diverge on Asterix and {seaquest_q} on Seaquest",
            f"{fresh.lost('qrc')} seeds of the paper's QRC(λ) end at 0",
        ],
        "docs/choosing.md": [
            f"{asterix} runs of Q(λ) diverge on Asterix and {seaquest_q} on Seaquest",
            f"QRC(λ) has {ratios_of_default} the return of StreamQ on SpaceInvaders, Asterix and "
            f"Seaquest, and {on_freeway} times on Freeway",
            f"{fresh.lost('qrc')} seeds lose Freeway",
            f"`regularize=\"output\"`, the default of `eligrad.QRC` for images, loses "
            f"{fresh.lost('qrc-output')}",
            f"QC(λ), {five.lost('qc')} seeds are lost",
            f"({seaquest[0]} and {seaquest[1]}, 30 seeds)",
            f"its size is {sizes[0].split()[0]} % to {sizes[1].split()[-2]} % of the TD error's",
            f"On CartPole Gradient PPO needs fewer steps than PPO ({soon['CartPole-v1']}), on "
            f"Pendulum more ({soon['Pendulum-v1']})",
        ],
        "docs/faq.md": [
            f"{without_42} runs on Asterix and Seaquest diverged within the first {last_42:,} "
            "steps",
            f"paper's rule {both.lost('qrc')} lost everything",
        ],
        "docs/why.md": [
            f"loses {lost} seed of Freeway, the paper's rule {fresh.lost('qrc')}",
            f"solves CartPole and Acrobot in [{of_all(both_tasks)} fresh seeds each]",
            f"solves {stream_q[0]} and {stream_q[1]} of 30",
            f"Q(λ) diverged in {without_42} runs of Asterix and Seaquest",
        ],
        "docs/quickstart.md": [
            f"{of_all(obgd[0]).capitalize()} fresh seeds solve CartPole in 100,000 steps, and "
            f"{of_all(obgd[1])} Acrobot in 150,000",
        ],
        "results/h/README.md": [
            f"it solves {paper[0]} seeds of CartPole and {paper[1].split()[0]} of Acrobot",
            f"`output`, β = 1 solves {output[1].split()[0]}, and "
            f"{of_all(output[0]).replace('all of', 'all')} of CartPole",
            f"loses {lost} seed of Freeway, where the paper's loses {fresh.lost('qrc')}",
            f"{low} of its 30 runs end below 8, of `output` none ends below {lowest}",
            f"{fresh.diverged('q-lambda-sparse', 'Seaquest')} runs of Q(λ) diverge on Seaquest, "
            f"{fresh.diverged('qrc', 'Seaquest').split()[0]} of QRC(λ)",
            f"there it solved {output[1]} seeds",
        ],
        "results/gradient-ppo/README.md": [
            f"{two} runs with two sequences are in the upper one, {eight} with eight, {plain} of "
            "PPO",
            f"{modes_2[0].capitalize()} runs of the chosen variant is in HalfCheetah's upper mode, "
            f"{modes_2[1]} of PPO, {modes_2[2]} as printed and {modes_2[3]} without h",
        ],
        "results/vectors/README.md": [
            f"the mean size of h is {sizes[0]} of the TD error's on CartPole, and {sizes[1]} on "
            "Acrobot",
            f"solves {stream_q[0]} and {stream_q[1]} of 30 other seeds",
            f"p = {fisher[0].pvalue:.2f} and {fisher[1].pvalue:.2f}",
        ],
        "results/README.md": [
            f"On Seaquest {both.diverged('q-lambda-sparse', 'Seaquest')} of its runs and "
            f"on Asterix {both.diverged('q-lambda-sparse', 'Asterix')} diverge",
            f"it loses {both.lost('qrc')} seeds and QC(λ) {both.lost('qc').split()[0]}",
            f"{modes[0]} of ten seeds of PPO and {modes[1]} of Gradient PPO end above 3,000",
            f"better than the paper's rule on Seaquest ({seaquest[0]} and {seaquest[1]})",
            f"it solves {both_tasks} on both tasks",
            f"TDRC(λ) and TDC(λ) end at {ends[0]} on Hopper, at {ends[1]} on HalfCheetah",
            f"{above_10['qrc']} of 12 seeds end above 10, against {above_10['stream-q']} of "
            f"StreamQ's, {above_10['qrc-h0.1']} with h scale 0.1 and {above_10['qrc-watkins']} "
            "with Watkins' cut",
            f"at {ratios} its return",
            f"Without it, {without} runs on Asterix and Seaquest diverge, all before step {last:,}",
            f"{len(alive)} of 12 seeds end between {alive.min():.1f} and {alive.max():.1f}, "
            f"{above} every seed of StreamQ",
            f"at {qc.min():.1f} to {qc.max():.1f} in all {len(qc)} seeds",
            f"{five.lost('qrc')} at β = 1, {five.lost('qrc-beta0.1')} at 0.1, "
            f"{five.lost('qrc-beta0.01')} at 0.01, {five.lost('qc')} at 0",
            f"([with fresh seeds](h/README.md) "
            f"{fresh.solved('qrc-output-obgd', TWO[0]).split()[0]} and "
            f"{fresh.solved('qrc-output-obgd', TWO[1])})",
        ],
    }  # fmt: skip


def missing(runs: Table, read: Callable[[Path], str] | None = None) -> list[str]:
    """The sentences that do not stand where they should, each after its page."""
    read = read or (lambda path: path.read_text(encoding="utf-8"))
    pages: Mapping[str, list[str]] = sentences(runs)
    return [
        f"{page}: {sentence}"
        for page, wanted in pages.items()
        for sentence in wanted
        if sentence not in re.sub(r"\s+", " ", read(ROOT / page))
    ]
