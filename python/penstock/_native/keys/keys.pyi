from penstock.serialization.pure.keys import *  # noqa: F403
