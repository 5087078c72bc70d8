"""Features of users for a model: pandas over batches, and running statistics of each user.

    python examples/streaming_features.py

A function of a pandas frame sees a few thousand rows at a time, so that its cost for each row is
that of vectorised code.  Named aggregates then keep the statistics of each user.
"""

import numpy as np
import pandas as pd
import penstock.aggregates as agg
import pyarrow as pa
from penstock.datastream import StreamExecutionEnvironment
from penstock.expressions import field

FEATURES = pa.schema([("user", pa.int64()), ("log_price", pa.float64()), ("is_night", pa.bool_())])


def purchases(count=5000, users=50):
    """Return purchases of users at hours of a day, and their prices."""
    numbers = np.arange(count)
    return pd.DataFrame(
        {"user": numbers % users, "hour": numbers * 7 % 24, "price": 1.0 + numbers % 10}
    )


def with_features(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute the features of a batch."""
    return pd.DataFrame(
        {
            "user": frame["user"],
            "log_price": np.log2(frame["price"]),
            "is_night": (frame["hour"] < 6) | (frame["hour"] >= 22),
        }
    )


def define(env):
    """Return the stream of users with their running statistics."""
    return (
        env.from_pandas(purchases())
        .map_batches(with_features, FEATURES)
        .key_by(field("user"))
        .aggregate(
            {
                "purchases": agg.count(),
                "at_night": agg.count(where=field("is_night")),
                "mean_log_price": agg.mean("log_price"),
            }
        )
    )


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    frame = define(env).to_pandas()
    print(frame.groupby("user").last())
