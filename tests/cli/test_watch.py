"""`eligrad watch` from the outside, and beside a process that trains."""

from __future__ import annotations

import itertools
import os
import pty
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa

from eligrad.agents import PRESETS
from eligrad.analysis import load_episodes, load_runs
from eligrad.analysis.report import write_report
from eligrad.cli import watch as cli_watch
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import CHUNKS, EPISODES, Tables
from eligrad.runs.plan import Plan

ELIGRAD = [sys.executable, "-m", "eligrad"]
SEEDS = [4, 9]


def plan_of(steps: int = 1000) -> Plan:
    return Plan(
        agent="qrc",
        settings=PRESETS["qrc"],
        env="MinAtar/Breakout-v1",
        max_episode_steps=None,
        env_params={},
        seeds=SEEDS,
        steps=steps,
        chunk=100,
        checkpoint_every=200,
    )


def begin(path, steps: int = 1000) -> RunFolder:
    """A run folder as it is before the first checkpoint."""
    folder = RunFolder(path)
    folder.write_config({"plan": plan_of(steps).to_json(), "sessions": []})
    return folder


def write(folder: RunFolder, step: int, *, diverged: bool = False) -> None:
    """Writes the metrics of 200 steps."""
    folder.write_tables(step, metrics(step, diverged=diverged))


def metrics(step: int, *, diverged: bool = False) -> Tables:
    """Two chunks of 100 steps each, and an episode of both seeds in each: returns step ± 10."""
    ends = [step - 100, step]
    episodes = [
        {"run": run, "seed": SEEDS[run], "step": at, "return": at + sign * 10.0, "length": 100}
        for at in ends
        for run, sign in ((0, 1), (1, -1))
    ]
    chunks = [
        {"run": run, "seed": SEEDS[run], "step": at, "seconds": 0.5, "steps_per_second": 400.0}
        | {"diverged_step": at - 7 if diverged and run else None}
        for at in ends
        for run in (0, 1)
    ]
    table = pa.Table.from_pylist(chunks, schema=CHUNKS)
    numbers = pa.array([9.0, 9.0, 0.25, 0.75], pa.float32())
    table = table.append_column("mean_abs_td_error", numbers)
    return Tables(pa.Table.from_pylist(episodes, schema=EPISODES), table)


def summary(steps: int, finished: bool) -> dict:
    each = [{"seed": seed, "diverged_step": None} for seed in SEEDS]
    return {"steps": steps, "finished": finished, "seeds": each, "seconds": 1.0} | {
        "steps_per_second": 400.0
    }


def text(folder: RunFolder, age: float = 10.0, columns: int = 100, rows: int = 40) -> list[str]:
    view = cli_watch.read(folder.path)
    return cli_watch.describe(view, (view.written or 0.0) + age, columns, rows)


def test_watch_tells_how_far_a_run_is(tmp_path):
    folder = begin(tmp_path / "run")
    early = "\n".join(text(folder))
    assert "QRC(λ) on MinAtar/Breakout-v1, 2 seeds: training" in early
    assert "step 0 of 1,000" in early
    assert "the first checkpoint, at step 200" in early
    assert "no episode has ended yet" in early
    write(folder, 200)
    write(folder, 400)
    lines = text(folder, age=1.0)
    assert " 40 %  step 400 of 1,000" in lines[1]
    # 600 steps of two seeds at 400 steps/s, of which a second has passed since the last write.
    assert "400 steps/s, all seeds together; 2 s of training, about 2 s left" in lines[2]
    assert re.search(
        r"last write: \d\d:\d\d:\d\d, 1 s ago \(every 200 steps, about 1 s apart\)", lines[3]
    )
    # Standard error of 410 and 390.
    assert (
        "episode return 400 ± 10 in the last tenth (● mean, ░ standard error over seeds)" in lines
    )
    # The newest chunk's, over both seeds.
    assert "mean abs td error 0.5" in lines
    assert lines[-1] == "no seed has diverged"
    assert "has it stopped?" in "\n".join(text(folder, age=100.0))


def test_watch_draws_the_curve(tmp_path):
    folder = begin(tmp_path / "run")
    for step in (200, 400, 600):
        write(folder, step)
    lines = text(folder, columns=30)
    chart = [line[10:] for line in lines if "┤" in line or "│" in line]
    heights = {}
    for y, line in enumerate(chart):
        for x, character in enumerate(line):
            if character == "●":
                heights[x] = y
    # 20 columns of 50 steps; the first episode ended at 100, and nothing is known after 600.
    assert sorted(heights) == [*range(1, 12)]
    rising = [heights[x] for x in sorted(heights)]
    assert rising == sorted(rising, reverse=True)
    assert rising[0] - rising[-1] >= 6
    assert float(next(line for line in lines if "┤" in line).split()[0]) == 610
    assert all(len(line) <= 30 for line in lines)


def test_watch_has_the_episodes_of_every_step_it_shows(tmp_path, monkeypatch):
    """The run writes on while its files are listed: the view is of one time, not of two."""
    folder = begin(tmp_path / "run")
    write(folder, 200)
    listed = RunFolder.parts

    def parts(self, name, *until):
        found = listed(self, name, *until)
        write(folder, 1000)
        return found

    monkeypatch.setattr(RunFolder, "parts", parts)
    lines = text(folder)
    assert "step 200 of 1,000" in lines[1]
    assert any("episode return 200 ± 10 in the last tenth" in line for line in lines)


def test_watch_cuts_no_words(tmp_path):
    folder = begin(tmp_path / "run")
    write(folder, 400)
    wide, narrow = (text(folder, age=100.0, columns=columns) for columns in (300, 79))
    assert all(len(line) <= 79 for line in narrow)

    def words(lines):
        return [word for line in lines if not set(line) & set("│┤└█") for word in line.split()]

    assert words(narrow) == words(wide)
    assert "has it stopped?" in " ".join(words(narrow))
    assert max(map(len, wide)) > 79
    # What is longer than it was leaves the curve fewer rows.
    assert len(text(folder, age=100.0, columns=60, rows=18)) <= 18


def test_watch_needs_no_agent(tmp_path):
    """The module that registers it was imported by the process that trains."""
    folder = RunFolder(tmp_path / "run")
    plan = plan_of().to_json() | {"agent": "mine", "settings": {"lam": 0.5}}
    folder.write_config({"plan": plan, "sessions": []})
    assert "mine on MinAtar/Breakout-v1, 2 seeds: training" in text(folder)


def test_watch_prints_names_escaped(tmp_path):
    folder = RunFolder(tmp_path / "run")
    plan = plan_of().to_json() | {"env": "A\x1b[2J\nB"}
    folder.write_config({"plan": plan, "sessions": []})
    assert "QRC(λ) on A\\x1b[2J\\nB, 2 seeds: training" in text(folder)


def test_readers_beside_a_writer(tmp_path):
    """For some seconds: each view, table and page is whole, of some time between two writes."""
    folder, stop = begin(tmp_path / "run", steps=10**6), threading.Event()

    def save(step):
        state = {"w": np.full(1000, step)}
        folder.save(step, state, metrics(step), {"plan": folder.config["plan"]})

    def work():
        for step in itertools.count(400, 200):
            if stop.wait(0.05):
                return
            save(step)
            if step % 1000 == 0:
                folder.write_config(folder.config)
                folder.write_summary(summary(step, finished=False))

    save(200)
    writer = threading.Thread(target=work)
    writer.start()
    try:
        looks, seen, limit = 0, set(), time.monotonic() + 3
        while looks < 4 or time.monotonic() < limit:
            view = cli_watch.read(folder.path)
            assert len(view.tables.episodes) == len(view.tables.chunks) == 2 * view.step // 100
            assert cli_watch.describe(view, time.time(), 79, 24)
            episodes, runs = load_episodes(tmp_path), load_runs(tmp_path)
            assert (episodes.groupby("run", observed=True).size() % 2 == 0).all()
            assert len(runs) == 2
            write_report(tmp_path, tmp_path / "report.html")
            seen.add(view.step)
            looks += 1
    finally:
        stop.set()
        writer.join()
    assert len(seen) > 2


def test_watch_tells_of_divergence(tmp_path):
    folder = begin(tmp_path / "run")
    write(folder, 200, diverged=True)
    write(folder, 400, diverged=True)
    assert text(folder)[-1] == "1 of 2 have diverged: seed 9 at step 93"


def test_watch_knows_the_end(tmp_path):
    folder = begin(tmp_path / "run")
    write(folder, 1000)
    folder.write_summary(summary(1000, finished=True))
    assert text(folder)[0].endswith("finished")
    assert "left" not in "\n".join(text(folder))
    # Gone on with for longer: the config is the newer file.
    os.utime(folder.path / "summary.json", (1.0, 1.0))
    begin(folder.path, steps=2000)
    assert text(folder)[0].endswith("training")
    folder.write_summary(summary(1400, finished=False))
    os.utime(folder.path / "config.json", (1.0, 1.0))
    assert text(folder)[0].endswith("stopped")


def test_watch_prints_once_where_there_is_no_terminal(tmp_path, capsys):
    folder = begin(tmp_path / "run")
    write(folder, 200)
    before = {file: file.stat().st_mtime_ns for file in folder.path.rglob("*")}
    assert cli_watch.main([str(folder.path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("QRC(λ)") == 1
    assert "\x1b" not in printed
    assert {file: file.stat().st_mtime_ns for file in folder.path.rglob("*")} == before
    assert cli_watch.main([str(tmp_path)]) == 2
    assert "is not a run folder: it has no config.json" in capsys.readouterr().err
    assert cli_watch.main([str(folder.path), "--every", "0"]) == 2
    assert "--every is 0" in capsys.readouterr().err


def test_watch_follows_a_run_to_its_end(tmp_path):
    """In a terminal, while files are half there, come, and are replaced."""
    folder = begin(tmp_path / "run")
    half = folder.path / "metrics" / "chunks" / "000000000200.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    mine, its = pty.openpty()
    watching = subprocess.Popen(
        [*ELIGRAD, "watch", str(folder.path), "--every", "0.05"], stdout=its, stderr=its
    )
    os.close(its)
    seen = ""

    def until(words):
        nonlocal seen
        limit = time.monotonic() + 120
        while words not in seen:
            assert time.monotonic() < limit
            seen += os.read(mine, 65536).decode(errors="replace")

    until("200.parquet is damaged")
    time.sleep(0.5)  # in which it looks several times
    half.unlink()
    until("step 0 of 1,000")
    assert seen.count("damaged") == 1
    (folder.path / "config.json").write_text('{"plan": ')
    write(folder, 200)
    time.sleep(0.2)
    begin(folder.path)
    until("step 200 of 1,000")
    assert "\x1b[" in seen
    write(folder, 1000)
    folder.write_summary(summary(1000, finished=True))
    until("finished")
    assert watching.wait(30) == 0
    os.close(mine)
