from penstock.network.pure.keys import *  # noqa: F403
