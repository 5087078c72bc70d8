//! Measures the data plane and, in the same run, what the machine can do at best.
//!
//! `bench-network [--smoke] [PART ...]` prints one line of JSON for each figure: name, value, unit.
//! A part is the name of a group (raw, pools, framing, exchange, barriers) or part of a row's name.
//! The driver `benchmarks/network.py` runs it, adds what Python measures, and judges.

#![allow(clippy::print_stdout, reason = "a command line program prints")]

mod barriers;
mod exchange;
mod framing;
mod pools;
mod raw;
mod report;
mod shared_memory;

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
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let smoke = options.iter().any(|option| option == "--smoke");
    for (name, measure) in GROUPS {
        let whole = wanted.iter().any(|part| part == name);
        let rows = if whole { Vec::new() } else { wanted.clone() };
        measure(&Report::new(smoke, rows));
    }
}
