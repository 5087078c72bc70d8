//! Goal: beats flow both ways without anybody's help, and the end of the peer shows.
//! Method: two heartbeats over one loopback connection.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use penstock_network::heartbeat::Heartbeat;

#[test]
fn beats_flow_both_ways_until_one_side_stops() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (right, _) = listener.accept().unwrap();
    let interval = Duration::from_millis(2);
    let left = Heartbeat::start(left, interval, Vec::new(), None).unwrap();
    let right = Heartbeat::start(right, interval, Vec::new(), None).unwrap();
    while left.beats_received() < 5 || right.beats_received() < 5 {
        thread::yield_now();
    }
    assert!(left.millis_since_last_beat() < 60_000);
    assert!(!left.is_closed());
    right.stop();
    right.stop();
    while !left.is_closed() {
        thread::yield_now();
    }
    assert!(right.is_closed());
}
