//! Admission of accepted connections that have not yet proved the token.
//!
//! A holder of the token proves it within milliseconds.  So the number of others is bounded, and
//! when it is exceeded, the oldest connection of the address with the most is dropped: however many
//! peers connect silently, a holder of the token is done before it loses its place.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::IoThread;
use crate::error::Error;
use crate::transport::connection::{Phase, Side};
use crate::transport::same_host;
use crate::transport::socket::{Peer, Socket};

/// Maximum number of accepted connections whose peers have not proved the token.
const MAX_STRANGERS: usize = 256;
/// Connections accepted before the present ones are served again.
const ACCEPTS_PER_ROUND: usize = 16;
/// Pause when the system has no descriptors for accepting a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time between two log lines about strangers.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the unit that counts as one address: for IPv6 the network, which a host controls; `None`
/// for processes of this host.
fn origin_of(peer: Peer) -> Option<IpAddr> {
    let Peer::Address(address) = peer else {
        return None;
    };
    Some(match address.ip().to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        v4 => v4,
    })
}

/// Returns the oldest connection of the origin with the most; among such origins, the oldest.
///  `strangers` are ordered by age.
fn dispensable(strangers: &[(usize, Option<IpAddr>)]) -> Option<usize> {
    let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
    for (_, origin) in strangers {
        *counts.entry(*origin).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    strangers
        .iter()
        .find(|(_, origin)| counts[origin] == most)
        .map(|(token, _)| *token)
}

/// Logs the drops of strangers, at most one line a second: the first event at once, those that
/// follow within a second together.
#[derive(Default)]
pub(super) struct DropLog {
    silent_until: Option<Instant>,
    counted: usize,
    last: String,
}

impl DropLog {
    pub(super) fn note(&mut self, event: String, now: Instant) {
        self.tell(now);
        if self.silent_until.is_some_and(|until| now < until) {
            self.counted += 1;
            self.last = event;
            return;
        }
        self.silent_until = Some(now + LOG_INTERVAL);
        log::warn!("{event}");
    }

    /// Logs the counted drops, if it is time; returns the time of the next line, if any.
    pub(super) fn tell(&mut self, now: Instant) -> Option<Instant> {
        if self.counted == 0 {
            return None;
        }
        if self.silent_until.is_some_and(|until| now < until) {
            return self.silent_until;
        }
        log::warn!("{} times more, at last: {}", self.counted, self.last);
        self.counted = 0;
        self.silent_until = Some(now + LOG_INTERVAL);
        None
    }
}

impl IoThread {
    /// Accepts some of the waiting connections.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_ROUND {
            match self.listeners.accept() {
                Ok(Some((socket, peer))) => self.admit(socket, peer),
                Ok(None) => return,
                Err(error) => {
                    if let Some(token) = dispensable(&self.strangers()) {
                        let reason = format!("its place is needed for another connection: {error}");
                        self.drop_stranger(token, &reason);
                        continue;
                    }
                    let now = Instant::now();
                    self.drops.note(
                        format!("no connection can be accepted for the moment: {error}"),
                        now,
                    );
                    self.listeners.pause_until(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: Socket, peer: Peer) {
        if let Socket::SameHost(stream) = &socket
            && !same_host::is_own(stream.stream())
        {
            let event = format!("dropped {peer}: it is another user's");
            self.drops.note(event, Instant::now());
            return;
        }
        self.on_accepted(socket, peer);
        // Usually few are opening; then no count is necessary.
        if self.opening.len() > MAX_STRANGERS {
            let strangers = self.strangers();
            if strangers.len() > MAX_STRANGERS
                && let Some(token) = dispensable(&strangers)
            {
                let reason = "too many unauthenticated connections, most of them of its address";
                self.drop_stranger(token, reason);
            }
        }
    }

    /// Returns the accepted connections that are not open, oldest first.
    fn strangers(&self) -> Vec<(usize, Option<IpAddr>)> {
        let mut strangers = Vec::new();
        for token in &self.opening {
            if let Some(connection) = self.connections.get(token) {
                let connection = connection.lock();
                if matches!(connection.side, Side::Server(_))
                    && !matches!(connection.phase, Phase::Open)
                {
                    strangers.push((*token, origin_of(connection.peer)));
                }
            }
        }
        strangers
    }

    fn drop_stranger(&mut self, token: usize, reason: &str) {
        self.drop_connection(token, &Error::Authentication(reason.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Address(text.parse().unwrap())
    }

    #[test]
    fn one_network_of_ipv6_is_one_origin() {
        let origin = |text| origin_of(peer(text));
        assert_eq!(origin("[2001:db8::1]:1"), origin("[2001:db8::2:3]:4"));
        assert_ne!(origin("[2001:db8::1]:1"), origin("[2001:db8:0:1::1]:1"));
        assert_eq!(origin("[::ffff:192.0.2.1]:1"), origin("192.0.2.1:9"));
        assert_ne!(origin("192.0.2.1:1"), origin("192.0.2.2:1"));
        assert_eq!(origin_of(Peer::SameHost), None);
    }

    #[test]
    fn the_oldest_of_the_origin_with_the_most_is_dispensable() {
        let [first, second] = ["192.0.2.1:1", "192.0.2.2:1"].map(|text| origin_of(peer(text)));
        assert_eq!(dispensable(&[]), None);
        assert_eq!(
            dispensable(&[(4, first), (5, second), (6, second)]),
            Some(5)
        );
        assert_eq!(dispensable(&[(4, second), (5, first)]), Some(4));
    }

    #[test]
    fn a_line_a_second() {
        let start = Instant::now();
        let mut drops = DropLog::default();
        assert_eq!(drops.tell(start), None);
        drops.note("first".into(), start);
        assert_eq!(drops.tell(start), None);
        drops.note("second".into(), start);
        drops.note("third".into(), start + LOG_INTERVAL / 2);
        assert_eq!((drops.counted, drops.last.as_str()), (2, "third"));
        assert_eq!(drops.tell(start), Some(start + LOG_INTERVAL));
        assert_eq!(drops.tell(start + LOG_INTERVAL), None);
        assert_eq!(drops.counted, 0);
    }
}
