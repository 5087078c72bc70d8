//! The reading side of record framing; each input channel has one.
//!
//! The unit is a buffer, not a record: `feed` takes the bytes of one buffer and returns the region
//! of whole records in the buffer, in place, besides a record that an earlier buffer began and this
//! one completes.  A tail that begins a record without ending it is copied out, so the buffer can
//! return to its pool as soon as the two regions have been read.
//!
//! States of the pending record:
//!
//! 1. nothing pending;
//! 2. one to three of the length bytes have arrived;
//! 3. the length is known and payload is being gathered, in memory up to
//!    `FramingLimits::spill_threshold_bytes`, else in a file that is already unlinked.

use std::ops::Range;

use super::LENGTH_BYTES;
use super::gathered::Gathered;
use super::spill::{SpillDirectories, SpillFile, SpilledRecord};
use crate::error::{Error, Result};

/// Capacity kept for the next record after one has been gathered, in bytes.
const KEPT_CAPACITY_BYTES: usize = 1 << 20;
/// Maximum read from a spill file at once, in bytes.
const READ_BACK_BYTES: usize = 2 << 20;
/// Smallest effective spill threshold, in bytes.
const SPILL_THRESHOLD_FLOOR_BYTES: usize = 100 << 10;

/// Limits of the records that a channel accepts.
#[derive(Debug, Clone)]
pub struct FramingLimits {
    /// Length above which a record counts as a corrupt stream, in bytes.
    pub max_record_bytes: usize,
    /// Length above which a record is gathered in a file, in bytes.
    pub spill_threshold_bytes: usize,
    /// Directories of spill files.
    pub spill_directories: SpillDirectories,
}

impl Default for FramingLimits {
    fn default() -> Self {
        Self {
            max_record_bytes: (1 << 31) - 1,
            spill_threshold_bytes: 5 << 20,
            spill_directories: SpillDirectories::default(),
        }
    }
}

#[derive(Debug)]
enum Pending {
    Nothing,
    Length {
        bytes: [u8; LENGTH_BYTES],
        count: usize,
    },
    Memory {
        length: usize,
    },
    File {
        length: usize,
        file: SpillFile,
    },
}

#[derive(Debug)]
enum Completed {
    Nothing,
    Memory,
    File(SpilledRecord),
}

/// Cuts the byte stream of one channel into records.
#[derive(Debug)]
pub struct RecordDeserializer {
    limits: FramingLimits,
    pending: Pending,
    /// Payload of the pending record in state `Memory`.
    gathered: Gathered,
    completed: Completed,
    /// Payload of the completed record in state `Memory`.
    spanning: Gathered,
}

impl RecordDeserializer {
    /// Creates a deserializer with nothing pending.
    #[must_use]
    pub fn new(mut limits: FramingLimits) -> Self {
        limits.spill_threshold_bytes = limits
            .spill_threshold_bytes
            .max(SPILL_THRESHOLD_FLOOR_BYTES);
        Self {
            limits,
            pending: Pending::Nothing,
            gathered: Gathered::default(),
            completed: Completed::Nothing,
            spanning: Gathered::default(),
        }
    }

    /// Takes the bytes of the next buffer and returns the range of its whole `[length][payload]`
    /// records, in place.  A record that an earlier buffer began and this one completes precedes
    /// them and is in [`spanning`](Self::spanning) until the next call.
    ///
    /// # Errors
    /// `CorruptStream` if a length is negative or above the limit, `Io` if a record cannot be
    /// spilled.
    pub fn feed(&mut self, data: &[u8]) -> Result<Range<usize>> {
        self.drop_completed();
        let rest = self.feed_pending(data)?;
        let whole = whole_records(rest, self.limits.max_record_bytes)?;
        let tail = &rest[whole..];
        if !tail.is_empty() {
            self.begin_pending(tail)?;
        }
        let start = data.len() - rest.len();
        Ok(start..start + whole)
    }

    /// Returns the payload, without its length, of the record completed by the last buffer.
    #[must_use]
    pub fn spanning(&self) -> Option<&[u8]> {
        match &self.completed {
            Completed::Nothing => None,
            Completed::Memory => Some(self.spanning.payload()),
            Completed::File(record) => Some(record.bytes()),
        }
    }

    /// Returns whether a record has begun and not ended.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !matches!(self.pending, Pending::Nothing)
    }

    /// Returns the bytes that belong to no delivered record, in a form that a fresh deserializer
    /// accepts before the rest of the stream.
    ///
    /// # Errors
    /// `Io` if a spilled record cannot be read back.
    pub fn unconsumed(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &mut self.pending {
            Pending::Nothing => {}
            Pending::Length {
                bytes: length,
                count,
            } => bytes.extend_from_slice(&length[..*count]),
            Pending::Memory { length } => {
                bytes.extend_from_slice(&(*length as u32).to_be_bytes());
                bytes.extend_from_slice(self.gathered.payload());
            }
            Pending::File { length, file } => {
                bytes.extend_from_slice(&(*length as u32).to_be_bytes());
                file.read_back(READ_BACK_BYTES, &mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// Discards all bytes taken so far, with their spill file.
    pub fn clear(&mut self) {
        self.pending = Pending::Nothing;
        self.gathered = Gathered::default();
        self.completed = Completed::Nothing;
        self.spanning = Gathered::default();
    }

    fn drop_completed(&mut self) {
        self.completed = Completed::Nothing;
        self.spanning.clear();
        if self.spanning.capacity() > KEPT_CAPACITY_BYTES {
            self.spanning = Gathered::default();
        }
    }

    /// Completes the pending record as far as possible and returns the rest of `data`.
    fn feed_pending<'a>(&mut self, data: &'a [u8]) -> Result<&'a [u8]> {
        let mut data = data;
        if let Pending::Length { bytes, count } = &mut self.pending {
            let taken = data.len().min(LENGTH_BYTES - *count);
            bytes[*count..*count + taken].copy_from_slice(&data[..taken]);
            *count += taken;
            data = &data[taken..];
            if *count < LENGTH_BYTES {
                return Ok(data);
            }
            let bytes = *bytes;
            self.begin_payload(bytes, data)?;
        }
        match &mut self.pending {
            Pending::Nothing | Pending::Length { .. } => Ok(data),
            Pending::Memory { length } => {
                let taken = data.len().min(*length - self.gathered.len());
                self.gathered.extend(&data[..taken]);
                if self.gathered.len() == *length {
                    self.pending = Pending::Nothing;
                    std::mem::swap(&mut self.gathered, &mut self.spanning);
                    self.completed = Completed::Memory;
                }
                Ok(&data[taken..])
            }
            Pending::File { length, file } => {
                let taken = data.len().min(*length - file.len());
                file.append(&data[..taken])?;
                if file.len() == *length {
                    let Pending::File { file, .. } =
                        std::mem::replace(&mut self.pending, Pending::Nothing)
                    else {
                        unreachable!("the state was matched above");
                    };
                    self.completed = Completed::File(file.into_record()?);
                }
                Ok(&data[taken..])
            }
        }
    }

    /// Stores a tail that begins a record without ending it.
    fn begin_pending(&mut self, tail: &[u8]) -> Result<()> {
        debug_assert!(!self.has_pending());
        let Some((length, payload)) = tail.split_first_chunk::<LENGTH_BYTES>() else {
            let mut bytes = [0; LENGTH_BYTES];
            bytes[..tail.len()].copy_from_slice(tail);
            self.pending = Pending::Length {
                bytes,
                count: tail.len(),
            };
            return Ok(());
        };
        self.begin_payload(*length, payload)?;
        match &mut self.pending {
            Pending::File { file, .. } => file.append(payload)?,
            _ => self.gathered.extend(payload),
        }
        Ok(())
    }

    fn begin_payload(&mut self, length: [u8; LENGTH_BYTES], source: &[u8]) -> Result<()> {
        let length = record_length(length, self.limits.max_record_bytes)?;
        self.pending = if length > self.limits.spill_threshold_bytes {
            self.gathered.clear();
            Pending::File {
                length,
                file: self.limits.spill_directories.create()?,
            }
        } else {
            self.gathered.begin(length, source);
            Pending::Memory { length }
        };
        Ok(())
    }
}

/// Returns the length of the prefix of `data` that consists of whole records.
fn whole_records(data: &[u8], max_record_bytes: usize) -> Result<usize> {
    let mut rest = data;
    while let Some(first) = rest.first_chunk::<LENGTH_BYTES>() {
        let stride = LENGTH_BYTES + record_length(*first, max_record_bytes)?;
        if rest.len() < stride {
            break;
        }
        // While the length repeats itself; see `Records`.
        loop {
            rest = &rest[stride..];
            if rest.len() < stride || rest.first_chunk() != Some(first) {
                break;
            }
        }
    }
    Ok(data.len() - rest.len())
}

fn record_length(bytes: [u8; LENGTH_BYTES], max_record_bytes: usize) -> Result<usize> {
    let length = u32::from_be_bytes(bytes) as usize;
    if length > max_record_bytes {
        return Err(Error::CorruptStream(format!(
            "record length {} outside 0..={max_record_bytes} bytes",
            i32::from_be_bytes(bytes)
        )));
    }
    Ok(length)
}
