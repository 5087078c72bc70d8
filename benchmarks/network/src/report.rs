//! How often to measure, and how to tell what came out.

use std::time::{Duration, Instant};

/// Prints figures; knows whether the run is only a trial.
pub(crate) struct Report {
    smoke: bool,
}

impl Report {
    pub(crate) fn new(smoke: bool) -> Self {
        Self { smoke }
    }

    /// `count` in a real run, a thousandth of it, but at least `least`, in a trial.
    pub(crate) fn count(&self, count: usize, least: usize) -> usize {
        if self.smoke {
            (count / 1_000).max(least)
        } else {
            count
        }
    }

    /// The median of repeated measurements.
    pub(crate) fn median(&self, mut measure: impl FnMut() -> f64) -> f64 {
        let repetitions = if self.smoke { 1 } else { 3 };
        let mut values: Vec<f64> = (0..repetitions).map(|_| measure()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Prints one figure.
    pub(crate) fn row(&self, name: &str, value: f64, unit: &str) {
        println!("{{\"name\": \"{name}\", \"value\": {value:.6}, \"unit\": \"{unit}\"}}");
    }

    /// Measures `rounds` runs of `body` and prints the median time of one, in nanoseconds.
    pub(crate) fn nanoseconds(&self, name: &str, rounds: usize, mut body: impl FnMut()) {
        let value = self.median(|| {
            let started = Instant::now();
            for _ in 0..rounds {
                body();
            }
            started.elapsed().as_secs_f64() * 1e9 / rounds as f64
        });
        self.row(name, value, "ns");
    }

    /// Measures `rounds` runs of `body`, which handles `bytes`, and prints gigabytes per second.
    pub(crate) fn gigabytes(
        &self,
        name: &str,
        bytes: usize,
        rounds: usize,
        mut body: impl FnMut(),
    ) {
        let value = self.median(|| {
            let started = Instant::now();
            for _ in 0..rounds {
                body();
            }
            (bytes * rounds) as f64 / started.elapsed().as_secs_f64() / 1e9
        });
        self.row(name, value, "GB/s");
    }
}

/// The middle of some durations, in microseconds.
pub(crate) fn p50_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}
