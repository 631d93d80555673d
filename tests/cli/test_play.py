"""`eligrad play` from the outside."""

from __future__ import annotations

import pytest
from PIL import Image

from eligrad.cli import play as cli_play
from eligrad.training import train
from tests.training.painted import NAME as PAINTED


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Programs of tests have no place in the user's cache."""
    monkeypatch.setattr("eligrad.engines.devices.keep_compiled_programs", lambda: None)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory, quickest_compilation):
    """A PPO of two seeds that has hardly learned."""
    out = tmp_path_factory.mktemp("cartpole") / "run"
    train("ppo", PAINTED, steps=64, seeds=2, out=out, rollout=32, minibatch_size=16, epochs=1)
    return out


def test_play_writes_a_video(cartpole, tmp_path, capsys):
    out = tmp_path / "film.gif"
    options = ["-o", str(out), "--seed", "1", "--max-steps", "5", "--fps", "10", "--sampled"]
    assert cli_play.main([str(cartpole), *options]) == 0
    printed = capsys.readouterr().out
    assert "PPO on PaintedCartPole-v0, seed 1, after 64 steps: return 5 in 5 steps" in printed
    assert f"video: {out}" in printed
    with Image.open(out) as gif:
        assert gif.n_frames == 6
        assert gif.info["duration"] == 100


def test_play_says_what_is_wrong(cartpole, tmp_path, capsys):
    def refused(*arguments):
        assert cli_play.main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr().err
        assert said.startswith("eligrad play: ")
        return said

    gif = tmp_path / "film.gif"
    assert "there is no run" in refused(tmp_path / "nowhere", "-o", gif)
    assert "is not a run folder: it has no config.json" in refused(tmp_path, "-o", gif)
    assert "seed is 2" in refused(cartpole, "--seed", "2", "-o", gif)
    assert "--seed is 'bets'" in refused(cartpole, "--seed", "bets", "-o", gif)
    assert "max_steps is 0" in refused(cartpole, "--max-steps", "0", "-o", gif)
    assert "--fps is 0" in refused(cartpole, "--fps", "0", "-o", gif)
    assert ".gif, .mp4 are accepted" in refused(cartpole, "-o", "film.png")
    assert not gif.exists()
