"""`eligrad play`: a video of an episode of a trained agent, with its value, h and TD error."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from eligrad.cli import messages
from eligrad.cli.modules import Modules, import_typed


@dataclasses.dataclass(frozen=True)
class Play:
    """Render an episode of a trained agent to a GIF or an MP4.

    Under each frame: the value estimate, h (for gradient rules) and the TD error, which show
    how credit is assigned. Nothing is learned, and the run does not change.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """A run folder, also one that is being trained, or a file that an agent was saved to."""
    modules: Modules = ()
    """Import this module first: the one of the run's environment, if you trust it."""
    env: str | None = None
    """The environment to play in, for an agent that was saved without one."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("play.gif")
    """The file to write: .gif, or .mp4 if the package imageio-ffmpeg is installed."""
    seed: Annotated[str, tyro.conf.arg(metavar="best|N")] = "best"
    """Which seed acts; best: the one with the highest return in its last episodes."""
    episode: int = 0
    """Seed of the episode: decides what is random in the environment."""
    max_steps: int = 500
    """Cut the episode off after this many steps."""
    fps: float = 15.0
    """Frames per second, one for each step."""
    sampled: bool = False
    """Draw actions as in training, instead of taking the best ones."""


def main(arguments: list[str]) -> int:
    """Writes the video that the arguments ask for; returns the exit code."""
    command = tyro.cli(Play, prog="eligrad play", args=arguments)
    return messages.run("play", lambda: _run(command))


def _run(command: Play) -> int:
    if command.seed != "best" and not command.seed.isdecimal():
        raise ValueError(f"--seed is {command.seed!r}; best, or a seed of the run, is accepted")
    if not command.fps > 0:
        raise ValueError(f"--fps is {command.fps}; a number above 0 is accepted")
    # JAX is loaded here, and not for a mistyped option.
    from eligrad.engines.devices import keep_compiled_programs
    from eligrad.training import video
    from eligrad.training.recording import record_episode

    video.check_target(command.out)
    import_typed(command.modules)
    keep_compiled_programs()
    recording = record_episode(
        command.run,
        seed="best" if command.seed == "best" else int(command.seed),
        episode=command.episode,
        greedy=not command.sampled,
        max_steps=command.max_steps,
        env=command.env,
    )
    video.save(recording, command.out, command.fps)
    total, end = recording.rewards.sum(), "ended" if recording.terminated else "cut off"
    print(f"{recording.title}: return {total:.4g} in {len(recording):,} steps, then {end}")
    print(f"video: {command.out}")
    return 0
