//! Measures the data plane and, in the same run, what the machine can do at best.
//!
//! `bench-network [--smoke]` prints one line of JSON for each figure: name, value, unit.  The
//! driver `benchmarks/network.py` runs it, adds what Python measures, and judges.

#![allow(clippy::print_stdout, reason = "a command line program prints")]

mod barriers;
mod exchange;
mod framing;
mod pools;
mod raw;
mod report;

use report::Report;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let report = Report::new(smoke);
    raw::measure(&report);
    pools::measure(&report);
    framing::measure(&report);
    exchange::measure(&report);
    barriers::measure(&report);
}
