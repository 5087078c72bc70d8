//! Heartbeats that a busy user function cannot delay: a thread of this crate sends and counts them
//! without the interpreter.
//!
//! A beat is eight bytes, the sender's counter, big-endian.  Nothing else uses the stream, except
//! for the opening bytes of the connecting end.  With an identity all of it is TLS, in which the
//! accepting end confirms by one byte that it accepts the identity.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use crate::transport::{TlsIdentity, connect_blocking};

/// Bytes of a beat.
pub const BEAT_BYTES: usize = 8;
/// Shortest wait passed to the system: a zero timeout would mean none at all.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Time that the peer has to complete the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// Milliseconds from `started` to the peer's last beat; only the thread writes it.
    last_beat_millis: AtomicU64,
    beats_received: AtomicU64,
    stopping: AtomicBool,
    /// Set by the thread when the stream has ended.
    closed: AtomicBool,
}

/// A running exchange of beats with one peer.
#[derive(Debug)]
pub struct Heartbeat {
    shared: Arc<Shared>,
    stream: TcpStream,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Heartbeat {
    /// Sends a beat every `interval` over `stream`, which must be connected and authenticated.
    ///
    /// `opening` is sent before the first beat; with `identity` this end encrypts, as the
    /// connecting one.
    ///
    /// # Errors
    /// `Io` if the stream cannot be prepared or the thread cannot start, `Authentication` if the
    /// identity cannot be used.
    pub fn start(
        stream: TcpStream,
        interval: Duration,
        opening: Vec<u8>,
        identity: Option<&TlsIdentity>,
    ) -> Result<Self> {
        let interval = interval.max(SHORTEST_WAIT);
        let prepare = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(interval))?;
            stream.try_clone()
        };
        let stream_of_thread =
            prepare().map_err(|error| Error::io("preparing a heartbeat", &error))?;
        let wire = match identity {
            None => Wire::Plain(stream_of_thread),
            Some(identity) => {
                Wire::Encrypted(Box::new(connect_blocking(identity, stream_of_thread)?))
            }
        };
        let shared = Arc::new(Shared {
            started: Instant::now(),
            last_beat_millis: AtomicU64::new(0),
            beats_received: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("penstock-heartbeat".into())
            .spawn(move || {
                if let Err(error) = beat(&for_thread, wire, interval, &opening)
                    && !for_thread.stopping.load(Ordering::Acquire)
                {
                    log::warn!("heartbeats ended: {error}");
                }
                for_thread.closed.store(true, Ordering::Release);
            })
            .map_err(|error| Error::io("starting the heartbeat thread", &error))?;
        Ok(Self {
            shared,
            stream,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns the milliseconds since the peer's last beat, or since the start if there was none.
    #[must_use]
    pub fn millis_since_last_beat(&self) -> u64 {
        let now = self.shared.started.elapsed().as_millis() as u64;
        now.saturating_sub(self.shared.last_beat_millis.load(Ordering::Acquire))
    }

    /// Returns the number of the peer's beats so far.
    #[must_use]
    pub fn beats_received(&self) -> u64 {
        self.shared.beats_received.load(Ordering::Acquire)
    }

    /// Returns whether either side has ended the stream.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Ends the exchange, closes the stream and joins the thread; idempotent.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Err(error) = self.stream.shutdown(Shutdown::Both)
            && error.kind() != ErrorKind::NotConnected
        {
            log::debug!("closing a heartbeat stream: {error}");
        }
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            log::error!("the heartbeat thread panicked");
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The stream in the form that the thread uses.
enum Wire {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(stream) => &stream.sock,
        }
    }

    /// Sends the opening bytes, and waits for the acceptance of the identity.
    fn open(&mut self, opening: &[u8]) -> std::io::Result<()> {
        self.socket().set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
        self.write_all(opening)?;
        if matches!(self, Self::Encrypted(_)) {
            self.read_exact(&mut [0])?;
        }
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(from),
            Self::Encrypted(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

fn beat(
    shared: &Shared,
    mut wire: Wire,
    interval: Duration,
    opening: &[u8],
) -> std::io::Result<()> {
    wire.open(opening)?;
    let mut counter = 0_u64;
    let mut next = Instant::now();
    let mut input = [0; 64 * BEAT_BYTES];
    let mut partial = 0;
    while !shared.stopping.load(Ordering::Acquire) {
        let now = Instant::now();
        if now >= next {
            counter += 1;
            wire.write_all(&counter.to_be_bytes())?;
            next = now + interval;
        }
        let wait = next
            .saturating_duration_since(Instant::now())
            .max(SHORTEST_WAIT);
        wire.socket().set_read_timeout(Some(wait))?;
        match wire.read(&mut input) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                partial += count;
                let beats = (partial / BEAT_BYTES) as u64;
                partial %= BEAT_BYTES;
                if beats > 0 {
                    let now = shared.started.elapsed().as_millis() as u64;
                    shared.last_beat_millis.store(now, Ordering::Release);
                    shared.beats_received.fetch_add(beats, Ordering::AcqRel);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
