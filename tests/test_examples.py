"""Every example runs as it stands, and does what it says."""

from __future__ import annotations

import importlib.util
import itertools
import runpy
import sys
from types import ModuleType

import gymnasium
import jax
import numpy as np
import pytest
from PIL import Image

from eligrad import Online
from eligrad.analysis import load_runs
from tests.markdown import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"flax_ppo": ("flax", "gymnax"), "atari": ("ale_py", "cv2")}
"""Packages that an example needs beside eligrad's own."""


def example(name: str) -> ModuleType:
    """The example as a module; what it needs and is not installed skips the test."""
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Examples are written for JAX as it comes: arrays of other dtypes and ranks are promoted."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_is_short_and_listed(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 150
    assert f"examples/{path.name}" in (ROOT / "docs/examples.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_is_a_program(path, monkeypatch, capsys):
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_path(str(path), run_name="__main__")
    assert "--steps" in capsys.readouterr().out


def test_qrc_from_rules_learns():
    early, late = example("qrc_from_rules").main(steps=40_000, seeds=2)
    assert late > 3 * early


def test_qrc_from_rules_has_the_cartpole_that_everybody_has():
    theirs = gymnasium.make("CartPole-v1").unwrapped
    state, _ = theirs.reset(seed=0)
    step = jax.jit(example("qrc_from_rules").cartpole)
    for action in np.random.default_rng(0).integers(2, size=50):
        ours, fell = step(state, action)
        state, _, terminated, *_ = theirs.step(int(action))
        np.testing.assert_allclose(ours, state, rtol=1e-5, atol=1e-6)
        assert fell == terminated
        if terminated:
            return
    raise AssertionError("no pole fell")


@pytest.mark.nightly
def test_flax_ppo_learns():
    means = example("flax_ppo").main(steps=20_480)
    assert np.mean(means[-3:]) > 3 * means[0]


@pytest.mark.nightly
def test_own_environment_learns_and_is_filmed(tmp_path):
    film = tmp_path / "docking.gif"
    early, late = example("own_environment").main(out=film)
    assert early < -0.5
    assert late > 0.3
    with Image.open(film) as frames:
        assert frames.size == (240, 40)
        assert frames.n_frames > 5


def test_device_stream_goes_on_as_if_it_had_never_stopped(tmp_path, quickest_programs):
    main = example("device_stream").main
    rewards = main(steps=400, file=tmp_path / "panel.npz")
    assert rewards == main(steps=400, file=tmp_path / "other.npz", restart=False)
    assert Online.load(tmp_path / "panel.npz").steps == 400 + 199  # the second half is not saved
    assert Online.load(tmp_path / "other.npz").steps == 400  # in the simulator


@pytest.mark.nightly
def test_device_stream_keeps_what_was_learned_while_the_device_drifts(tmp_path):
    """A panel that looks anywhere wins 0.24 on average."""
    rewards = example("device_stream").main(steps=5_000, file=tmp_path / "panel.npz")
    assert np.mean(rewards[:500]) > 0.6
    assert np.mean(rewards[-500:]) > 0.6


@pytest.mark.nightly
def test_sweep_and_plot_draws_what_it_trained_once(tmp_path, capsys):
    sweep = example("sweep_and_plot")
    pictures = sweep.main(steps=200, seeds=2, env="Probe/Trace-v0", store=tmp_path)
    assert len(load_runs(tmp_path)) == 2 * 3 * 2
    runs = sorted((tmp_path / "runs").iterdir())
    for picture in pictures:
        with Image.open(picture) as image:
            assert len(image.convert("RGB").getcolors(maxcolors=2**24)) > 10
    before = [(run / "summary.json").stat().st_mtime_ns for run in runs]
    sweep.main(steps=200, seeds=2, env="Probe/Trace-v0", store=tmp_path)
    assert [(run / "summary.json").stat().st_mtime_ns for run in runs] == before


def test_atari_frames_are_stacked_last_and_in_order():
    env = example("atari").make_atari("Pong")
    first, _ = env.reset(seed=0)
    assert first.shape == env.observation_space.shape == (84, 84, 4)
    assert first.dtype == np.uint8
    seen = [first, *(env.step(2)[0] for _ in range(6))]
    for before, after in itertools.pairwise(seen):
        np.testing.assert_array_equal(before[..., 1:], after[..., :-1])
    assert (seen[-1][..., -1] != seen[-1][..., 0]).any()
    env.close()


@pytest.mark.nightly
def test_atari_trains():
    agent = example("atari").main(steps=20)
    assert agent.session.env.observation_space.shape == (84, 84, 4)
    before = np.array(agent.session.engine.state.agent.w.output.weight)
    agent.learn(20)
    assert agent.num_timesteps == 40
    assert (before != np.array(agent.session.engine.state.agent.w.output.weight)).any()


@pytest.mark.nightly
def test_auxiliary_loss_moves_its_head_and_the_shared_features():
    module = example("auxiliary_loss")
    plain, _ = module.train(100, None, seeds=1)
    both, _ = module.train(100, module.reward_loss, seeds=1)
    assert np.abs(plain["reward"] - both["reward"]).max() > 1e-6
    assert np.abs(plain["features"] - both["features"]).max() > 1e-6
