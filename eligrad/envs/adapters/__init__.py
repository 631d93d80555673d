"""Environments of other packages behind the protocol of `eligrad.envs`."""
