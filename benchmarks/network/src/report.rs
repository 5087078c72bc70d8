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
        print_row(name, unit, median((0..repetitions).map(|_| measure())));
    }

    /// Measures rows in turn, over and over, and prints their medians and those of the quotients.
    ///
    /// A machine whose cores are near to each other now and far apart later changes all figures
    /// of a moment alike; what is measured in turn can be compared, what is measured later cannot.
    /// All of it is measured if one of its names is wanted.
    pub(crate) fn together<const N: usize>(
        &self,
        mut rows: [(&str, &str, &mut dyn FnMut() -> f64); N],
        quotients: &[Quotient],
    ) {
        let mut names = rows.iter().map(|row| row.0);
        if !names.any(|name| self.wants(name)) && !quotients.iter().any(|q| self.wants(q.name)) {
            return;
        }
        let repetitions = if self.smoke { 1 } else { 9 };
        let rounds: Vec<[f64; N]> = (0..repetitions)
            .map(|_| rows.each_mut().map(|(_, _, measure)| measure()))
            .collect();
        for (index, (name, unit, _)) in rows.iter().enumerate() {
            print_row(name, unit, median(rounds.iter().map(|round| round[index])));
        }
        for Quotient { name, unit, of, by } in quotients {
            let quotient = |round: &[f64; N]| round[*of] / round[*by];
            print_row(name, unit, median(rounds.iter().map(quotient)));
        }
    }

    /// Measures `rounds` runs of `body` and prints the time of one, in nanoseconds.
    pub(crate) fn nanoseconds(&self, name: &str, rounds: usize, mut body: impl FnMut()) {
        self.row(name, "ns", || nanoseconds(rounds, &mut body));
    }

    /// Measures `rounds` runs of `body`, which handles `bytes`, and prints gigabytes per second.
    pub(crate) fn gigabytes(
        &self,
        name: &str,
        bytes: usize,
        rounds: usize,
        mut body: impl FnMut(),
    ) {
        self.row(name, "GB/s", || gigabytes(bytes, rounds, &mut body));
    }
}

/// A row that is the quotient of two rows of its group, which have these numbers.
pub(crate) struct Quotient {
    name: &'static str,
    unit: &'static str,
    of: usize,
    by: usize,
}

impl Quotient {
    /// More is better.
    pub(crate) fn part(name: &'static str, of: usize, by: usize) -> Self {
        let unit = "part";
        Self { name, unit, of, by }
    }

    /// Less is better.
    pub(crate) fn times(name: &'static str, of: usize, by: usize) -> Self {
        let unit = "times";
        Self { name, unit, of, by }
    }
}

fn print_row(name: &str, unit: &str, value: f64) {
    println!("{{\"name\": \"{name}\", \"value\": {value:.6}, \"unit\": \"{unit}\"}}");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The time of one of `rounds` runs of `body`, in nanoseconds.
pub(crate) fn nanoseconds(rounds: usize, mut body: impl FnMut()) -> f64 {
    let started = Instant::now();
    for _ in 0..rounds {
        body();
    }
    started.elapsed().as_secs_f64() * 1e9 / rounds as f64
}

/// Gigabytes per second of `rounds` runs of `body`, which handles `bytes`.
pub(crate) fn gigabytes(bytes: usize, rounds: usize, body: impl FnMut()) -> f64 {
    bytes as f64 / nanoseconds(rounds, body)
}

/// The middle of some durations, in microseconds.
pub(crate) fn p50_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}
