//! Goal: no input from outside makes a decoder panic, hang or accept what it should not.
//! Method: every input of the fuzz targets' corpus, and a bounded number of seeded mutations of
//! each, go through the same entry points as under `cargo fuzz`.

#[path = "../fuzz/entry_points.rs"]
mod entry_points;

use std::fs;
use std::path::Path;

/// A small generator of its own, so that a seed means the same inputs for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Changes a few bytes, cuts, doubles or joins with another input.
fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    const TELLING: [u8; 6] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF];
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] = TELLING[random.below(TELLING.len())],
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at.min(bytes.len()), random.next() as u8),
            4 => bytes.extend_from_slice(&other[random.below(other.len())..]),
            _ => bytes.extend_from_within(at..),
        }
        // Joining doubles; an input stays small.
        bytes.truncate(64 << 10);
    }
    bytes
}

/// Runs a corpus and `mutations` changes of each of its inputs.
fn run(target: &str, mutations: usize, entry: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| fs::read(path).expect("an input"))
        .collect();
    assert!(
        corpus.len() >= 4,
        "{} holds too few inputs",
        folder.display()
    );
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for input in &corpus {
        entry(input);
        for _ in 0..mutations {
            let other = &corpus[random.below(corpus.len())];
            entry(&mutate(input, other, &mut random));
        }
    }
}

#[test]
fn frames() {
    run("frames", 2000, entry_points::frames);
}

#[test]
fn events() {
    run("events", 2000, entry_points::events);
}

#[test]
fn records() {
    run("records", 500, entry_points::records);
}

#[test]
fn blocks() {
    run("blocks", 2000, entry_points::blocks);
}

#[test]
fn connection() {
    run("connection", 40, entry_points::connection);
}

#[test]
fn producer() {
    run("producer", 40, entry_points::producer);
}

#[test]
fn files() {
    run("files", 300, entry_points::files);
}
