"""What loggers send, read back from their own files."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eligrad.cli import train as cli_train
from eligrad.runs.configuration import Configuration
from eligrad.runs.metrics import Tables
from eligrad.training import loggers, resume, train
from eligrad.training.loggers import Loggers, Subject, check_loggers, scalars
from tests.engines import tiny

SEEDS = [5, 9]


def chunk(step: int) -> Tables:
    """Run 0 ended two episodes, run 1 none; a diagnostic that no engine has, and a null."""
    episodes = {
        "run": [0, 0],
        "seed": [5, 5],
        "step": [step - 2, step],
        "return": [2.0, 5.0],
        "length": [2, 4],
    }
    chunks = {
        "run": [0, 1],
        "seed": SEEDS,
        "step": [step, step],
        "surprise": [0.5, np.nan],
        "diverged_step": pa.array([None, step - 1], pa.int64()),
    }
    return Tables(pa.table(episodes), pa.table(chunks))


OF_SEED_5 = {
    "chunk/surprise": 0.5,
    "episode/count": 2.0,
    "episode/return": 3.5,
    "episode/length": 3.0,
}


def subject(folder: Path, step: int = 0) -> Subject:
    configuration = Configuration("qrc", {"lam": [0.1, 0.2], "rule": "td"}, "Probe/Trace-v0", 2000)
    plan = dataclasses.asdict(configuration) | {"seeds": SEEDS}
    config = {"plan": plan, "sessions": [{"started": "2026-01-01"}]}
    return Subject(folder, "QRC(λ) on a <world>", config, step)


def opened(*names: str, of: Subject) -> Loggers:
    several = Loggers()
    several.open(names, of)
    return several


def test_scalars_of_a_chunk():
    rows = scalars(chunk(1000))
    assert rows[0] == OF_SEED_5
    assert rows[1].keys() == {"chunk/surprise", "chunk/diverged_step"}
    assert np.isnan(rows[1]["chunk/surprise"])
    assert rows[1]["chunk/diverged_step"] == 999.0


def test_runs_that_share_a_seed_have_names_of_their_own(tmp_path):
    one = subject(tmp_path)
    assert one.names == ["seed-5", "seed-9"]
    one.config["plan"]["seeds"] = [5, 5]
    assert one.names == ["run-0-seed-5", "run-1-seed-5"]


def test_tensorboard_reads_what_was_sent(tmp_path):
    pytest.importorskip("tensorboard", reason="the logger needs eligrad[loggers]")
    for begin, chunks in ((0, (1000, 2000, 3000)), (2000, (3000,))):
        logger = opened("tensorboard", of=subject(tmp_path, begin))
        for step in chunks:
            logger.write(chunk(step), step)
        logger.close()
    events = _tensorboard(tmp_path / "tensorboard" / "seed-5")
    assert set(events.Tags()["scalars"]) == OF_SEED_5.keys()
    for tag, value in OF_SEED_5.items():
        # The third chunk was trained twice: the earlier of the two is forgotten.
        assert [(e.step, e.value) for e in events.Scalars(tag)] == [
            (step, value) for step in (1000, 2000, 3000)
        ]
    other = _tensorboard(tmp_path / "tensorboard" / "seed-9")
    assert [e.value for e in other.Scalars("chunk/diverged_step")] == [999.0, 1999.0, 2999.0]


def _tensorboard(folder: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def test_wandb_offline_reads_what_was_sent(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="the logger needs eligrad[loggers]")
    for name in ("CONFIG_DIR", "CACHE_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = tmp_path / "run"
    run.mkdir()
    logger = opened("wandb", of=subject(run))
    logger.write(chunk(1000), 1000)
    logger.write(chunk(2000), 2000)
    logger.close()
    wandb.teardown()  # as at the end of a process: waits for W&B's own, which writes the files
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == len(SEEDS)
    logged = {}
    for file in files:
        records = _wandb_records(file)
        about = next(r.run for r in records if r.WhichOneof("record_type") == "run")
        config = {item.key: json.loads(item.value_json) for item in about.config.update}
        assert about.run_group == "run"
        assert about.display_name == f"QRC(λ) on a <world>, seed-{config['seed']}"
        assert config["agent"] == "qrc"
        assert config["settings"] == {"lam": {5: 0.1, 9: 0.2}[config["seed"]], "rule": "td"}
        logged[config["seed"]] = [
            {
                item.nested_key[0] if item.nested_key else item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            for record in records
            if record.WhichOneof("record_type") == "history"
        ]
    for place, step in enumerate((1000, 2000)):
        assert OF_SEED_5 | {"step": step} == {
            k: v for k, v in logged[5][place].items() if not k.startswith("_")
        }
        assert logged[9][place]["chunk/diverged_step"] == step - 1


def _wandb_records(path: Path) -> list:
    """Records of W&B's file: LevelDB's log format, blocks of 32 KiB, after a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, records, pending = path.read_bytes(), [], b""
    assert content.startswith(b":W&B")
    at = 7
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:  # too little for a header: padding
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        pending += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            records.append(Record.FromString(pending))
            pending = b""
    return records


class Failing:
    """A logger that fails at the given call of `write`."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def write(self, tables: Tables, step: int) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise OSError("no space left")

    def close(self) -> None:
        if self.at == 0:
            raise OSError("gone")


def test_a_logger_that_fails_is_warned_of_once_and_left(tmp_path, monkeypatch):
    bad, good = Failing(2), Failing(-1)
    monkeypatch.setitem(loggers.LOGGERS, "bad", lambda _: bad)
    monkeypatch.setitem(loggers.LOGGERS, "good", lambda _: good)
    several = opened("bad", "good", of=subject(tmp_path))
    several.write(chunk(1), 1)
    with pytest.warns(UserWarning, match=r"logger 'bad' failed \(OSError: no space left\)"):
        several.write(chunk(2), 2)
    several.write(chunk(3), 3)
    several.close()
    assert (bad.calls, good.calls) == (2, 3)


def test_a_logger_that_cannot_begin_or_end_is_warned_of(tmp_path, monkeypatch):
    def refuse(_):
        raise RuntimeError("not logged in")

    monkeypatch.setitem(loggers.LOGGERS, "shy", refuse)
    monkeypatch.setitem(loggers.LOGGERS, "late", lambda _: Failing(0))
    with pytest.warns(UserWarning, match="'shy' failed"):
        several = opened("shy", "late", of=subject(tmp_path))
    several.write(chunk(1), 1)
    with pytest.warns(UserWarning, match="'late' failed"):
        several.close()


def test_loggers_are_refused_before_work(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'tensorboard' and 'wandb' are accepted"):
        check_loggers(["tensorbord"], tmp_path)
    with pytest.raises(ValueError, match="without `out`"):
        check_loggers(["wandb"], None)
    monkeypatch.setitem(loggers.LOGGERS, "absent_package", Failing)
    with pytest.raises(ImportError, match=r"eligrad\[loggers\]"):
        check_loggers(["absent_package"], tmp_path)


class Remembers:
    """A logger that keeps all it is sent, and what it was told first."""

    def __init__(self, told: Subject) -> None:
        self.told, self.sent, self.closed = told, [], False

    def write(self, tables: Tables, step: int) -> None:
        self.sent.append((step, tables))

    def close(self) -> None:
        self.closed = True


def test_loggers_get_the_rows_that_the_folder_gets(tmp_path, monkeypatch, quickest_compilation):
    """Chunk by chunk, over two sessions; one that fails stops nothing."""
    made = []
    monkeypatch.setitem(
        loggers.LOGGERS, "memory", lambda told: made.append(Remembers(told)) or made[-1]
    )
    monkeypatch.setitem(loggers.LOGGERS, "bad", lambda _: Failing(2))
    monkeypatch.setattr(loggers, "import_optional", lambda *_, **__: None)
    agent, out = tiny.agent(), tmp_path / "run"
    with pytest.warns(UserWarning, match="'bad' failed") as warned:
        train(agent, tiny.ENV, steps=60, seeds=SEEDS, chunk=20, out=out, loggers=["memory", "bad"])
    assert len([each for each in warned if "logger" in str(each.message)]) == 1
    result = resume(out, steps=80, agent=agent, env=tiny.ENV, loggers=["memory"])
    first, second = made
    assert first.closed
    assert second.closed
    assert [step for step, _ in first.sent + second.sent] == [20, 40, 60, 80]
    assert (first.told.step, second.told.step) == (0, 60)
    assert first.told.names == ["seed-5", "seed-9"]
    assert len(second.told.config["sessions"]) == 2
    sent = Tables.join([tables for _, tables in first.sent + second.sent])
    assert sent.episodes.equals(result.episodes)
    assert sent.chunks.equals(result.chunks)


def test_training_refuses_a_logger_before_it_writes(tmp_path):
    with pytest.raises(
        ValueError, match="loggers has 'foo'; 'tensorboard' and 'wandb' are accepted"
    ):
        train("qrc", tiny.ENV, steps=10, out=tmp_path / "run", loggers=["foo"])
    with pytest.raises(ValueError, match="without `out`"):
        train("qrc", tiny.ENV, steps=10, loggers=["tensorboard"])
    with pytest.raises(ValueError, match="'sinks'; here that is 'loggers'"):
        train("qrc", tiny.ENV, steps=10, sinks=["tensorboard"])
    assert not (tmp_path / "run").exists()


def test_the_command_line_names_loggers(tmp_path):
    run = ["qrc", "MinAtar/Breakout-v1", "--steps", "10", "--out", str(tmp_path / "run")]
    assert cli_train.parse(run).logger == ()
    both = cli_train.parse([*run, "--logger", "tensorboard", "--logger", "wandb"])
    assert both.logger == ("tensorboard", "wandb")
