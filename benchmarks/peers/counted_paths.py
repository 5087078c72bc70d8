"""The paths that the records of a penstock job took, from the metrics of its operators."""

import collections

#: Lets tasks report their metrics when they end.
OPTION = "penstock.metrics.reported-at-end"

METRICS = (
    "numRecordsEvaluated",
    "numEvaluationsGivenUp",
    "numRecordsOutComputed",
    "numSumsInPlace",
    "numKeysConverted",
)


def run(env, name):
    """Execute a job and return its counts by metric, summed over its operators."""
    client = env.execute_async(name)
    client.wait_for_result()
    counts = collections.Counter()
    for values in client.handle.operator_totals().values():
        counts.update({metric: values[metric] for metric in METRICS if metric in values})
    return dict(counts)
