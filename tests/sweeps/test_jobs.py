"""Runs that share a program, and how they are dealt out."""

from __future__ import annotations

import dataclasses
import json

from hypothesis import given
from hypothesis import strategies as st

from eligrad.agents import make_settings
from eligrad.agents.registry import to_json
from eligrad.runs.configuration import Configuration, Run
from eligrad.sweeps.jobs import BALANCE, Job, make_jobs

SETTINGS = to_json(make_settings("qrc", {}))


def run(env="A", seed=0, steps=100, **settings):
    return Run(Configuration("qrc", SETTINGS | settings, env, steps), seed)


def test_numbers_share_a_program_and_what_shapes_it_does_not():
    together = [run(seed=s, lam=lam, step_size=x) for s in (0, 1) for lam in (0, 1) for x in (1, 2)]
    apart = [
        run(rule="tdc", beta=0.0),
        run(env="B"),
        run(steps=101),
        Run(dataclasses.replace(run().configuration, max_episode_steps=5), 0),
        Run(dataclasses.replace(run().configuration, env_params={"x": 1.0}), 0),
    ]
    jobs = make_jobs([*together, *apart], 1, divide=False)
    assert sorted(len(job.runs) for job in jobs) == [1, 1, 1, 1, 1, 8]
    assert {each.name for each in jobs[0].runs} == {each.name for each in together}


def test_a_job_survives_json_and_its_id_ignores_the_order():
    job = Job((run(lam=0.5), run(seed=3)))
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again == job
    assert Job(job.runs[::-1]).id == job.id != Job(job.runs[:1]).id


@given(
    groups=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=6),
    workers=st.integers(1, 9),
)
def test_every_run_is_in_one_job_and_no_worker_has_far_more_than_its_share(groups, workers):
    runs = [
        run(env=str(index), seed=seed, steps=1000 * steps)
        for index, (count, steps) in enumerate(groups)
        for seed in range(count)
    ]
    jobs = make_jobs(runs, workers, divide=True)
    assert sorted(each.name for job in jobs for each in job.runs) == sorted(r.name for r in runs)
    for job in jobs:
        assert len({each.configuration.env for each in job.runs}) == 1
    # As workers take them, the longest first.
    loads, alone = [0] * workers, [0] * workers
    for job in jobs:
        loads[loads.index(min(loads))] += job.cost
    for each in sorted(runs, key=lambda r: -r.configuration.steps):
        alone[alone.index(min(alone))] += each.configuration.steps
    ideal = max(sum(loads) / workers, max(each.configuration.steps for each in runs))
    assert max(loads) <= max(BALANCE * ideal, max(alone))


def test_no_finer_than_needed():
    seeds = [run(seed=seed) for seed in range(32)]
    assert [len(job.runs) for job in make_jobs(seeds, 2, divide=True)] == [16, 16]
    assert [len(job.runs) for job in make_jobs(seeds, 1, divide=True)] == [32]
    five = [run(env=env, seed=seed) for env in "ABCDE" for seed in range(2)]
    assert [len(job.runs) for job in make_jobs(five, 5, divide=True)] == [2] * 5
    assert make_jobs([], 3, divide=True) == []
