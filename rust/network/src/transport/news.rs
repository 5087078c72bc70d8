//! Notifications of subpartitions on their way to the readers' connection.
//!
//! News are readers' numbers in a list of the connection, each at most once; whoever finds the
//! list empty owes a ring.  Ringing sends at once, on the thread that rings, when the connection
//! has nothing else to do: a flushed record then reaches the kernel without waiting for the I/O
//! thread to wake.  Otherwise, and for news of many readers, the I/O thread does it.
//!
//! That none is lost is rule W-1 of `docs/waiting.md`.

use super::connection::Connection;
use super::{Command, Transport};
use crate::partition::{AvailabilityListener, Doorbell, Wakeups};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};

/// Most readers whose news the ringing thread looks after by itself.
const MAX_DIRECT_READERS: usize = 4;

/// The readers of a connection that have news.
pub(super) struct News {
    transport: Arc<Transport>,
    token: usize,
    connection: Weak<Mutex<Connection>>,
    /// Readers by number, each at most once until it was looked after.
    readers: Mutex<Vec<u32>>,
}

impl News {
    pub(super) fn new(
        transport: Arc<Transport>,
        token: usize,
        connection: Weak<Mutex<Connection>>,
    ) -> Self {
        Self {
            transport,
            token,
            connection,
            readers: Mutex::new(Vec::new()),
        }
    }

    /// Adds a reader; true when a ring is owed.
    fn add(&self, reader: u32) -> bool {
        let mut readers = self.readers.lock();
        readers.push(reader);
        readers.len() == 1
    }

    /// Moves the readers to `into`, which must be empty.
    pub(super) fn take(&self, into: &mut Vec<u32>) {
        std::mem::swap(&mut *self.readers.lock(), into);
    }

    /// Sends what the news are about, if that can be done right here; false when the I/O thread
    /// has to have a look.
    fn send(&self) -> bool {
        if self.readers.lock().len() > MAX_DIRECT_READERS {
            return false;
        }
        // Never waits: the thread may hold the lock itself, further up.
        match self.connection.upgrade() {
            Some(connection) => connection
                .try_lock()
                .is_some_and(|mut connection| connection.transmit_now()),
            None => true,
        }
    }
}

impl Doorbell for News {
    fn leave(&self, news: &mut Vec<u32>) -> bool {
        let mut readers = self.readers.lock();
        let first = readers.is_empty();
        readers.append(news);
        first
    }

    fn ring(&self) {
        if !self.send() {
            self.transport.post(Command::Transmit(self.token));
        }
    }
}

/// Carries news of one subpartition to its reader, once until the reader was looked after.
pub(super) struct ReaderListener {
    news: Arc<News>,
    /// The reader's number on its connection.
    reader: u32,
    posted: AtomicBool,
}

impl ReaderListener {
    pub(super) fn new(news: Arc<News>, reader: u32) -> Self {
        Self {
            news,
            reader,
            posted: AtomicBool::new(false),
        }
    }

    /// From now on news are posted again; the caller looks for them afterwards.
    pub(super) fn listen(&self) {
        // Reading what the last news wrote makes visible what they are about.
        self.posted.swap(false, Ordering::AcqRel);
    }

    /// Returns whether there were no news that nobody has looked after yet; there are now.
    fn post(&self) -> bool {
        !self.posted.swap(true, Ordering::AcqRel)
    }
}

impl AvailabilityListener for ReaderListener {
    fn notify_data_available(&self) {
        if self.post() && self.news.add(self.reader) {
            self.news.ring();
        }
    }

    fn notify_priority_event(&self) {
        self.notify_data_available();
    }

    fn notify_later(&self, priority: bool, wakeups: &mut Wakeups) {
        if self.post() {
            wakeups.owe(&self.news, self.reader, priority);
        }
    }
}
