//! The transport: one I/O thread per executor and its connections, by TCP, with TLS if requested,
//! or, on the same host, by Unix sockets.
//!
//! Only this module has sockets.  A thread that makes data visible to a reader sends it itself if
//! the reader's connection is idle (`news`), a thread that has credit announces it (`link`), and
//! the reader of a gate and the writer of a partition receive by themselves while they wait
//! (`waiting`); the I/O thread does everything else, and all of this if nobody else does
//! (`backstop`).  One machine for each connection decides whose turn it is (`lookout`).
//! Other threads post commands to it; the sender coalesces every command (one announcement per
//! channel with new credit, one note per connection with news), so the numbers of channels and
//! connections bound the command queue; task events add at most a few for each superstep of a task.
//!
//! `docs/waiting.md` has the rules of these threads and the order of the crate's locks.

mod auth;
mod backstop;
mod client;
mod connection;
mod handshake;
mod inbound;
mod io_thread;
mod lending;
mod link;
mod listeners;
mod lookout;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod news;
mod outbound;
mod receivers;
mod same_host;
mod same_host_stream;
mod server;
mod socket;
mod socket_set;
mod tls;
mod waiting;

use std::net::SocketAddr;
use std::thread::JoinHandle;

#[cfg(not(feature = "loom"))]
use mio::Waker;
use mio::{Poll, Token};
use penstock_memory::SharedMemory;

pub(crate) use self::link::Link;
use self::listeners::Listeners;
use self::tls::Tls;
pub use self::tls::TlsIdentity;
pub(crate) use self::tls::connect_blocking;
pub(crate) use self::waiting::Waiting;
use crate::environment::EnvironmentConfig;
use crate::error::{Error, Result};
use crate::gate::RemoteInputChannel;
use crate::partition::{PartitionManager, PartitionShared};
#[cfg(feature = "loom")]
use crate::sync::Waker;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::wire::PartitionRequest;

/// Request of another thread to the I/O thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Connect if necessary and request the channel's subpartition.
    RequestPartition(Arc<RemoteInputChannel>),
    /// The channel has credits to announce.
    AnnounceCredit(Arc<RemoteInputChannel>),
    /// Watch the credits that a channel gathers.
    WatchCredit(Arc<RemoteInputChannel>),
    /// Resume the channels after blocking events.
    Resume(Vec<Arc<RemoteInputChannel>>),
    /// The channel's producer should make its next buffers so many bytes large.
    AnnounceBufferSize(Arc<RemoteInputChannel>, u32),
    /// The channel's gate has another reader.
    Attend(Arc<RemoteInputChannel>),
    /// The channel is released.
    Cancel(Arc<RemoteInputChannel>),
    /// The channel's task has an event for the producing one.
    SendTaskEvent(Arc<RemoteInputChannel>, Vec<u8>),
    /// Readers of a connection have news or something left to send.
    Transmit(usize),
    /// A reader has left something to read on a connection.
    Watch(usize),
    /// A partition that a reader waited for is registered.
    Attach {
        /// The reader's connection.
        connection: usize,
        /// The request.
        request: PartitionRequest,
        /// The partition.
        partition: Arc<PartitionShared>,
    },
    /// End the thread.
    Close,
}

/// Handle of the I/O thread.
#[derive(Debug)]
pub(crate) struct Transport {
    /// `None` once the I/O thread has ended.
    commands: Mutex<Option<Vec<Command>>>,
    /// Set by the I/O thread before it sleeps; whoever clears it owes a wake-up.  Changed by swaps
    /// only, so that each change sees the one before it.
    parked: AtomicBool,
    waker: Waker,
    address: SocketAddr,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Transport {
    /// Binds the data port and starts the I/O thread, which shows `memory`, where buffers lie, to
    /// consumers of this host.
    pub(crate) fn start(
        config: &Arc<EnvironmentConfig>,
        manager: &Arc<PartitionManager>,
        memory: Option<Arc<SharedMemory>>,
    ) -> Result<Arc<Self>> {
        let tls = config.tls.as_ref().map(Tls::new).transpose()?;
        let bind = || {
            let poll = Poll::new()?;
            let (listeners, address) =
                Listeners::bind(&config.bind_host, config.same_host_path, poll.registry())?;
            let waker = Waker::new(poll.registry(), io_thread::WAKER)?;
            Ok((listeners, address, poll, waker))
        };
        let doing = format!("opening the data port on {}", config.bind_host);
        let (listeners, address, poll, waker) =
            bind().map_err(|error| Error::io(&doing, &error))?;
        let transport = Arc::new(Self {
            commands: Mutex::new(Some(Vec::new())),
            parked: AtomicBool::new(false),
            waker,
            address,
            thread: Mutex::new(None),
        });
        let io = io_thread::IoThread::new(
            poll,
            listeners,
            Arc::clone(&transport),
            Arc::clone(manager),
            Arc::clone(config),
            tls,
            memory,
        )
        .map_err(|error| Error::io(&doing, &error))?;
        let thread = std::thread::Builder::new()
            .name("penstock-io".into())
            .spawn(move || io.run())
            .map_err(|error| Error::io("starting the I/O thread", &error))?;
        *transport.thread.lock() = Some(thread);
        Ok(transport)
    }

    /// Creates a transport without a thread, for models, which play the thread.
    #[cfg(feature = "loom")]
    pub(crate) fn detached() -> Arc<Self> {
        Arc::new(Self {
            commands: Mutex::new(Some(Vec::new())),
            parked: AtomicBool::new(false),
            waker: Waker::default(),
            address: ([127, 0, 0, 1], 1).into(),
            thread: Mutex::new(None),
        })
    }

    /// Waits for commands as the I/O thread does, without sockets: sleeps until there are some.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn wait_for_commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        loop {
            self.take_commands(&mut commands);
            if !commands.is_empty() {
                return commands;
            }
            if self.park() {
                self.waker.wait();
            }
            self.unpark();
        }
    }

    /// Has every wake-up of the I/O thread ring a bell, at which a model of it sleeps.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn wake_by(&self, bell: impl Fn() + Send + Sync + 'static) {
        self.waker.ring_by(bell);
    }

    /// Returns commands after `sleep`, which the bell ends; skips it if some are there.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn take_commands_or(&self, sleep: impl FnOnce()) -> Vec<Command> {
        if self.park() {
            sleep();
        }
        self.unpark();
        let mut commands = Vec::new();
        self.take_commands(&mut commands);
        commands
    }

    /// Returns the data port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands a command to the I/O thread and wakes it if it sleeps.
    pub(crate) fn post(&self, command: Command) {
        let mut commands = self.commands.lock();
        if let Some(commands) = commands.as_mut() {
            commands.push(command);
        } else {
            drop(commands);
            // A request must fail, as nobody serves it; the other commands have no effect any more.
            if let Command::RequestPartition(channel) = command {
                channel.on_error(Error::CancelTask(
                    "the network environment is closed".into(),
                ));
            }
            return;
        }
        drop(commands);
        self.wake();
    }

    /// Wakes the I/O thread for another round.
    pub(crate) fn wake(&self) {
        if self.parked.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("waking the I/O thread: {error}");
        }
    }

    /// Ends the I/O thread, which closes every connection, and joins it.
    pub(crate) fn close(&self) {
        self.post(Command::Close);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            log::error!("the I/O thread panicked");
        }
    }

    /// Moves the waiting commands to `into`, which must be empty.
    fn take_commands(&self, into: &mut Vec<Command>) {
        if let Some(commands) = self.commands.lock().as_mut() {
            std::mem::swap(commands, into);
        }
    }

    /// Drops the waiting commands and refuses later ones, as the I/O thread is about to end.
    fn refuse_commands(&self) {
        let waiting = self.commands.lock().take();
        drop(waiting);
    }

    /// Announces that the I/O thread is about to sleep; returns false if there is work after all.
    fn park(&self) -> bool {
        self.parked.swap(true, Ordering::SeqCst);
        if self.commands.lock().as_ref().is_none_or(Vec::is_empty) {
            return true;
        }
        self.parked.swap(false, Ordering::SeqCst);
        false
    }

    fn unpark(&self) {
        self.parked.swap(false, Ordering::SeqCst);
    }
}

/// First token of a connection; tokens are never used twice.
const FIRST_CONNECTION: Token = Token(4);
