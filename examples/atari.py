"""Atari as papers play it: preprocessing, four stacked frames, and StreamQ.

    pip install 'eligrad[atari]'
    python examples/atari.py --game Pong --steps 3000

`ALE/Pong-v5` by its name gives frames as the emulator draws them: 210 × 160 pixels, in colour, one
at a time. Gymnasium's wrappers make them 84 × 84 and grey, and stack four, so that an observation
shows which way the ball flies. A function that makes the environment takes the place of its name.
"""

import time

import ale_py
import gymnasium
import numpy as np
import tyro
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformObservation

import eligrad
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment

gymnasium.register_envs(ale_py)


def make_atari(game: str = "Pong") -> gymnasium.Env:
    # AtariPreprocessing skips frames, so the emulator must not; it takes the maximum of the last
    # two, since some sprites are drawn in every other frame only. Actions stay sticky (0.25) and an
    # episode ends with the game, not with a life, as Machado et al. (2018) recommend.
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1)
    env = AtariPreprocessing(env, frame_skip=4, screen_size=84, grayscale_obs=True)
    env = FrameStackObservation(env, stack_size=4)
    # Gymnasium stacks in front, (4, 84, 84); convolutions here want (height, width, channels).
    layout = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    return TransformObservation(env, lambda frames: np.moveaxis(frames, 0, -1), layout)


def main(game: str = "Pong", steps: int = 3_000) -> eligrad.StreamQ:
    """Trains for a moment, which is far too short to learn a game."""
    env = GymnasiumEnvironment(make_atari, game=game)
    agent = eligrad.StreamQ(env)  # the agent normalises each pixel by its running statistics
    began = time.perf_counter()
    agent.learn(steps, progress_bar=True)
    print(f"{steps / (time.perf_counter() - began):.0f} steps per second, compilation included")
    print(agent.episodes)
    return agent


if __name__ == "__main__":
    tyro.cli(main)
