//! How often to measure, and how to tell what came out.

use std::time::{Duration, Instant};

/// Prints figures; knows which ones are wanted and whether the run is only a trial.
pub(crate) struct Report {
    smoke: bool,
    /// Parts of the names of the rows that are wanted; empty: all.
    wanted: Vec<String>,
}

impl Report {
    pub(crate) fn new(smoke: bool, wanted: Vec<String>) -> Self {
        Self { smoke, wanted }
    }

    /// Whether somebody asked for this row.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part.as_str()))
    }

    /// `count` in a real run, a thousandth of it, but at least `least`, in a trial.
    pub(crate) fn count(&self, count: usize, least: usize) -> usize {
        if self.smoke {
            (count / 1_000).max(least)
        } else {
            count
        }
    }

    /// Prints the median of repeated measurements, if the row is wanted.
    pub(crate) fn row(&self, name: &str, unit: &str, mut measure: impl FnMut() -> f64) {
        if !self.wants(name) {
            return;
        }
        let repetitions = if self.smoke { 1 } else { 3 };
        let mut values: Vec<f64> = (0..repetitions).map(|_| measure()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let value = values[values.len() / 2];
        println!("{{\"name\": \"{name}\", \"value\": {value:.6}, \"unit\": \"{unit}\"}}");
    }

    /// Measures `rounds` runs of `body` and prints the time of one, in nanoseconds.
    pub(crate) fn nanoseconds(&self, name: &str, rounds: usize, mut body: impl FnMut()) {
        self.row(name, "ns", || {
            let started = Instant::now();
            for _ in 0..rounds {
                body();
            }
            started.elapsed().as_secs_f64() * 1e9 / rounds as f64
        });
    }

    /// Measures `rounds` runs of `body`, which handles `bytes`, and prints gigabytes per second.
    pub(crate) fn gigabytes(
        &self,
        name: &str,
        bytes: usize,
        rounds: usize,
        mut body: impl FnMut(),
    ) {
        self.row(name, "GB/s", || {
            let started = Instant::now();
            for _ in 0..rounds {
                body();
            }
            (bytes * rounds) as f64 / started.elapsed().as_secs_f64() / 1e9
        });
    }
}

/// The middle of some durations, in microseconds.
pub(crate) fn p50_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}
