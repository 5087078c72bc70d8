//! Measures the data plane and, in the same run, what the machine can do at best.
//!
//! `bench-network [--smoke] [GROUP ...]` prints one line of JSON for each figure: name, value,
//! unit.  The driver `benchmarks/network.py` runs it, adds what Python measures, and judges; groups
//! (raw, pools, framing, exchange, barriers) are for those who profile.

#![allow(clippy::print_stdout, reason = "a command line program prints")]

mod barriers;
mod exchange;
mod framing;
mod pools;
mod raw;
mod report;

use report::Report;

/// What measures one group of figures.
type Measure = fn(&Report);

const GROUPS: [(&str, Measure); 5] = [
    ("raw", raw::measure),
    ("pools", pools::measure),
    ("framing", framing::measure),
    ("exchange", exchange::measure),
    ("barriers", barriers::measure),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, wanted): (Vec<_>, Vec<_>) = arguments
        .iter()
        .partition(|argument| argument.starts_with("--"));
    let report = Report::new(options.iter().any(|option| *option == "--smoke"));
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|group| *group == name) {
            measure(&report);
        }
    }
}
