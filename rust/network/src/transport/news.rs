//! Notifications of subpartitions for their readers' connection.
//!
//! News are numbers of readers in a list of the connection, each at most once; the thread that
//! finds the list empty owes a ring.  Ringing sends at once, on the ringing thread, if the
//! connection is idle: a flushed record then reaches the kernel without waiting for the I/O thread
//! to wake.  Otherwise, and for news of many readers, the I/O thread sends.
//!
//! Rule W-1 of `docs/waiting.md` ensures that none is lost.

use super::connection::Connection;
use super::{Command, Transport};
use crate::partition::{AvailabilityListener, Doorbell, Wakeups};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};

/// Maximum number of readers whose news the ringing thread handles itself.
const MAX_DIRECT_READERS: usize = 4;

/// The readers of a connection that have news.
pub(super) struct News {
    transport: Arc<Transport>,
    token: usize,
    connection: Weak<Mutex<Connection>>,
    /// Numbers of readers, each at most once until it was handled.
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

    /// Adds a reader; returns true if a ring is owed.
    fn add(&self, reader: u32) -> bool {
        let mut readers = self.readers.lock();
        readers.push(reader);
        readers.len() == 1
    }

    /// Moves the readers to `into`, which must be empty.
    pub(super) fn take(&self, into: &mut Vec<u32>) {
        std::mem::swap(&mut *self.readers.lock(), into);
    }

    /// Sends the data of the news, if that is possible here; false if the I/O thread must check.
    fn send(&self) -> bool {
        if self.readers.lock().len() > MAX_DIRECT_READERS {
            return false;
        }
        // Never waits: this thread may already hold the lock.
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

/// Passes news of one subpartition to its reader, once until the reader was handled.
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

    /// Posts news again from now on; the caller checks for data afterwards.
    pub(super) fn listen(&self) {
        // Reading the value that the last news wrote makes their data visible.
        self.posted.swap(false, Ordering::AcqRel);
    }

    /// Posts news; returns whether none were pending.
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
