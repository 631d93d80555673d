"""What a type checker must know of the settings; `make types` reads this, nothing runs it."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import eligrad

agent: eligrad.QRC = eligrad.QRC("MinAtar/Breakout-v1", lam=0.9, beta=[0.1, 1.0], seeds=2).learn(10)
best: eligrad.QRC = agent.best()
loaded: eligrad.PPO = eligrad.PPO.load("agent.npz")

eligrad.QRC("MinAtar/Breakout-v1", lamda=3)  # pyright: ignore[reportCallIssue]
eligrad.QRC("MinAtar/Breakout-v1", trace_cut="before")  # pyright: ignore[reportArgumentType]
eligrad.PPO("CartPole-v1", exploration_fraction=0.1)  # pyright: ignore[reportCallIssue]
eligrad.GradientPPO("Hopper-v4", h_step_size=1e-3, sequence=16)
eligrad.GradientAC("Pendulum-v1", beta=0.3, actor_kappa=4.0, h="features")
eligrad.StreamAC("Pendulum-v1", kappa=4.0)  # pyright: ignore[reportCallIssue]
