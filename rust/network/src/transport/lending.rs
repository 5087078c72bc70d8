//! Buffers that a consumer on the same host copies directly from the producer's memory.
//!
//! The producer passes the memory of its pool to the consumer, and sends references to buffers in
//! it instead of their bytes.  It keeps lent buffers until the consumer returns them.  If the
//! connection ends before, it raises a flag and the buffers return to their pool at once: a
//! consumer checks the flag after copying, so it never mistakes bytes written since for those that
//! were sent.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use penstock_memory::{Buffer, ForeignFlag, ForeignMemory, SharedFlag, SharedMemory};

use crate::error::{Error, Result};
use crate::sync::Arc;

/// Number of descriptors that a producer passes: the memory and the flag.
pub(super) const DESCRIPTORS: usize = 2;

/// Size below which buffers are sent as bytes: a reference must be returned.
const MIN_LENT_BYTES: usize = 512;

/// The producer's end.
pub(super) struct Lender {
    memory: Arc<SharedMemory>,
    flag: SharedFlag,
    /// True if the consumer has confirmed that it has mapped both.
    accepted: bool,
    /// Buffers that the consumer has not returned, oldest first.
    lent: VecDeque<Lent>,
    /// Number of these that a local pool misses.
    missed: usize,
}

/// A buffer that the consumer copies.
struct Lent {
    _buffer: Buffer,
    /// True if its local pool has no other instead.
    missed: bool,
}

impl Lender {
    pub(super) fn new(memory: Arc<SharedMemory>) -> io::Result<Self> {
        Ok(Self {
            memory,
            flag: SharedFlag::create()?,
            accepted: false,
            lent: VecDeque::new(),
            missed: 0,
        })
    }

    /// Returns the descriptors that the consumer receives.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; DESCRIPTORS] {
        [self.memory.descriptor(), self.flag.descriptor()]
    }

    /// Notes that the consumer has mapped the memory.
    ///
    /// # Errors
    /// `CorruptStream` if it confirms twice.
    pub(super) fn accept(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.accepted, true) {
            return Err(Error::CorruptStream("memory accepted twice".into()));
        }
        Ok(())
    }

    /// Returns the offset at which the consumer finds the bytes of `buffer`, if it is to be lent.
    pub(super) fn offset_of(&self, buffer: &Buffer) -> Option<u64> {
        let lends = self.accepted
            && buffer.size() >= MIN_LENT_BYTES
            && buffer.data_type().is_buffer()
            && !buffer.is_compressed();
        let offset = self.memory.offset_of(buffer).filter(|_| lends)?;
        Some(offset as u64)
    }

    /// Returns whether a pool misses buffers that the consumer has not returned.
    pub(super) fn is_missed(&self) -> bool {
        self.missed > 0
    }

    /// Keeps a buffer until it is returned, replacing it in its local pool from the network pool if
    /// possible: a buffer that waits in a socket would not block its writer either.
    pub(super) fn lend(&mut self, mut buffer: Buffer) {
        buffer.note_read_elsewhere();
        let missed = !buffer.leave_local_pool();
        self.missed += usize::from(missed);
        self.lent.push_back(Lent {
            _buffer: buffer,
            missed,
        });
    }

    /// Takes back the oldest `count` references, whose bytes the consumer has copied.
    ///
    /// # Errors
    /// `CorruptStream` if there are fewer.
    pub(super) fn take_back(&mut self, count: i32) -> Result<()> {
        match usize::try_from(count) {
            Ok(returned @ 1..) if returned <= self.lent.len() => {
                let back = self.lent.drain(..returned);
                self.missed -= back.filter(|lent| lent.missed).count();
                Ok(())
            }
            _ => Err(Error::CorruptStream(format!(
                "{count} buffers returned of {} lent",
                self.lent.len()
            ))),
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        if !self.lent.is_empty() {
            self.flag.raise();
        }
    }
}

/// The consumer's end.
pub(super) struct Borrower {
    memory: ForeignMemory,
    flag: ForeignFlag,
    /// Number of references received and not returned.
    owed: i32,
}

impl Borrower {
    /// Maps the memory that the producer passed.
    ///
    /// # Errors
    /// `InvalidData` if it cannot be mapped safely, else the error of the operating system.
    pub(super) fn map(descriptors: &[OwnedFd]) -> io::Result<Self> {
        let [memory, flag] = descriptors else {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("{} descriptors", descriptors.len()),
            ));
        };
        Ok(Self {
            memory: ForeignMemory::map(memory.as_fd())?,
            flag: ForeignFlag::map(flag.as_fd())?,
            owed: 0,
        })
    }

    /// Counts a received reference, whatever happens to it.
    pub(super) fn borrow(&mut self) {
        self.owed += 1;
    }

    /// Copies the bytes of a reference.
    ///
    /// # Errors
    /// `CorruptStream` if the reference is out of bounds; `PartitionConnection` if the producer has
    /// ended the connection.
    pub(super) fn copy(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if !self.memory.copy_to(offset, into) {
            return Err(Error::CorruptStream(format!(
                "a reference to {} bytes at {offset}, outside of the shared memory",
                into.len()
            )));
        }
        if self.flag.is_raised() {
            return Err(Error::PartitionConnection(
                "The remote executor has closed the connection with buffers under way. This might \
                 indicate that the remote executor was lost."
                    .into(),
            ));
        }
        Ok(())
    }

    /// Returns the number of references to return.
    pub(super) fn owed(&self) -> i32 {
        self.owed
    }

    /// Returns and resets `owed`, for a message that returns them.
    pub(super) fn take_owed(&mut self) -> i32 {
        std::mem::take(&mut self.owed)
    }
}
