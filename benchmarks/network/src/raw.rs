//! The limits: memory copies, a lock, file writes and bare sockets, blocking, with the sizes that
//! penstock uses.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Instant;

use crate::report::{Report, p50_us};

const SEGMENT_BYTES: usize = 32 << 10;
const PAGE_BYTES: usize = 4 << 10;
const FILE_BYTES: usize = 10 << 20;
const WRITE_BYTES: usize = 256 << 10;
/// A long and its length.
const LONG_BYTES: usize = 12;
const POOLS: usize = 1_000;

pub(crate) fn measure(report: &Report) {
    pass_over_pools(report);
    longs(report);
    memory(report);
    file_write(report);
    sockets(report);
}

/// What a pool of buffers cannot do without: an element off a list under a lock, and back on it.
pub(crate) struct LockedList(Mutex<Vec<usize>>);

impl LockedList {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(vec![0; 32]))
    }

    pub(crate) fn exchange(&self) {
        let element = self.0.lock().expect("unharmed").pop();
        self.0.lock().expect("unharmed").extend(black_box(element));
    }
}

fn pass_over_pools(report: &Report) {
    let bounds: Vec<(usize, usize)> = vec![(2, 10); POOLS];
    let rounds = report.count(20_000, 10);
    report.nanoseconds("raw pass over 1,000 pools", rounds, || {
        let sizes: Vec<usize> = black_box(&bounds)
            .iter()
            .map(|(min, max)| min + max)
            .collect();
        black_box(sizes);
    });
}

/// The time of one of `rounds` calls that each of two threads makes, in nanoseconds.
pub(crate) fn on_two_threads(rounds: usize, body: &(impl Fn() + Sync)) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..rounds).for_each(|_| body()));
        }
    });
    started.elapsed().as_secs_f64() * 1e9 / rounds as f64
}

/// Longs behind their lengths in a segment, without anything around them.
fn longs(report: &Report) {
    let mut segment = vec![0_u8; SEGMENT_BYTES];
    let records = SEGMENT_BYTES / LONG_BYTES;
    let rounds = report.count(10_000, 10);
    let mut value = 0_u64;
    report.row("raw long writes", "ns", || {
        let started = Instant::now();
        for _ in 0..rounds {
            for record in black_box(&mut segment).chunks_exact_mut(LONG_BYTES) {
                value += 1;
                record[..4].copy_from_slice(&8_u32.to_be_bytes());
                record[4..].copy_from_slice(&value.to_be_bytes());
            }
        }
        started.elapsed().as_secs_f64() * 1e9 / (rounds * records) as f64
    });
    report.row("raw long reads", "ns", || {
        let started = Instant::now();
        for _ in 0..rounds {
            let mut sum = 0_u64;
            for record in black_box(&segment).chunks_exact(LONG_BYTES) {
                sum += record[4..]
                    .first_chunk()
                    .map_or(0, |bytes| u64::from_be_bytes(*bytes));
            }
            black_box(sum);
        }
        started.elapsed().as_secs_f64() * 1e9 / (rounds * records) as f64
    });
}

fn memory(report: &Report) {
    for (name, bytes, rounds) in [
        ("32 KiB", SEGMENT_BYTES, 200_000),
        ("10 MiB", 10 << 20, 200),
    ] {
        let rounds = report.count(rounds, 10);
        let mut copy = copies(bytes);
        report.gigabytes(&format!("raw memcpy {name}"), bytes, rounds, &mut copy);
    }
}

/// What copies so many bytes from one place to another, over and over.
pub(crate) fn copies(bytes: usize) -> impl FnMut() {
    let room = bytes + PAGE_BYTES;
    let (mut source, mut target) = (vec![1_u8; room], vec![2_u8; room]);
    move || {
        let source = page_aligned(&mut source, bytes);
        let target = page_aligned(&mut target, bytes);
        black_box(target).copy_from_slice(black_box(source));
    }
}

fn sockets(report: &Report) {
    let writes = report.count(60_000, 10);
    report.row("raw TCP 1 KiB writes", "GB/s", || {
        let (left, right) = tcp_pair();
        throughput(left, right, 1 << 10, writes)
    });
    report.row("raw Unix socket 32 KiB writes", "GB/s", || {
        let (left, right) = UnixStream::pair().expect("a socket pair");
        throughput(left, right, SEGMENT_BYTES, writes)
    });
    let rounds = report.count(20_000, 10);
    report.row("raw Unix socket one way", "us", || {
        let (left, right) = UnixStream::pair().expect("a socket pair");
        ping_pong(left, right, rounds)
    });
}

/// Gigabytes a second of writes of 32 KiB.
pub(crate) fn tcp_throughput(writes: usize) -> f64 {
    let (left, right) = tcp_pair();
    throughput(left, right, SEGMENT_BYTES, writes)
}

/// The middle time of 64 bytes one way, in microseconds.
pub(crate) fn tcp_one_way(rounds: usize) -> f64 {
    let (left, right) = tcp_pair();
    ping_pong(left, right, rounds)
}

/// Copies between places whose addresses differ by a few bytes modulo a page are many times slower.
fn page_aligned(room: &mut [u8], bytes: usize) -> &mut [u8] {
    let start = room.as_ptr().align_offset(PAGE_BYTES);
    &mut room[start..start + bytes]
}

/// Over and over into the same pages of a file in the system's directory for such.
fn file_write(report: &Report) {
    let path = std::env::temp_dir().join(format!("bench-network-{}", std::process::id()));
    let file = File::create_new(&path).expect("a file");
    std::fs::remove_file(&path).expect("removed");
    let data = vec![4_u8; FILE_BYTES];
    let write = || {
        for (index, part) in data.chunks(WRITE_BYTES).enumerate() {
            file.write_all_at(part, (index * WRITE_BYTES) as u64)
                .expect("written");
        }
    };
    write();
    let rounds = report.count(100, 2);
    report.gigabytes("raw file write 10 MiB", FILE_BYTES, rounds, write);
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let left = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (right, _) = listener.accept().expect("accepted");
    for stream in [&left, &right] {
        stream.set_nodelay(true).expect("no delay");
    }
    (left, right)
}

fn throughput(
    mut left: impl Write + Send,
    mut right: impl Read + Send,
    bytes: usize,
    writes: usize,
) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let data = vec![3_u8; bytes];
            for _ in 0..writes {
                left.write_all(&data).expect("written");
            }
        });
        let mut data = vec![0; 256 << 10];
        while right.read(&mut data).expect("read") > 0 {}
    });
    (bytes * writes) as f64 / started.elapsed().as_secs_f64() / 1e9
}

/// Half of the middle round trip of 64 bytes, in microseconds.
fn ping_pong<S: Read + Write + Send>(mut left: S, mut right: S, rounds: usize) -> f64 {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut data = [0; 64];
            for _ in 0..rounds {
                right.read_exact(&mut data).expect("read");
                right.write_all(&data).expect("written");
            }
        });
        let mut data = [0; 64];
        let times = (0..rounds).map(|_| {
            let started = Instant::now();
            left.write_all(&data).expect("written");
            left.read_exact(&mut data).expect("read");
            started.elapsed()
        });
        p50_us(times.collect()) / 2.0
    })
}
