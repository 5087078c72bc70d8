//! The reader of a task's input: takes buffers from a gate and cuts them into records.
//!
//! One thread owns it.  A batch is valid until the next call, which returns its buffer.

use std::ops::Range;
use std::time::{Duration, Instant};

use penstock_memory::{Buffer, DataType};

use super::input_gate::{BufferOrEvent, InputGate, Next, Wait};
use crate::error::{Error, Result};
use crate::framing::{FramingLimits, LENGTH_BYTES, RecordDeserializer};

/// Result of one call.
#[derive(Debug)]
pub enum Batch<'a> {
    /// Nothing: the timeout passed.
    Nothing,
    /// Nothing: somebody woke the gate.
    Woken,
    /// Records of one channel.
    Data {
        /// The channel.
        channel: usize,
        /// Data type of the buffer.
        data_type: DataType,
        /// Payload, without its length, of a record that earlier buffers began; it precedes the
        /// others.
        spanning: Option<&'a [u8]>,
        /// Whole `[length][payload]` records, in place.
        records: &'a [u8],
    },
    /// An event of one channel.
    Event {
        /// The channel.
        channel: usize,
        /// Its kind.
        data_type: DataType,
        /// The serialized event.
        bytes: &'a [u8],
    },
    /// Every channel has ended.
    End,
}

/// Reads records and events from a gate.
#[derive(Debug)]
pub struct RecordReader {
    gate: InputGate,
    deserializers: Vec<RecordDeserializer>,
    /// The buffer of the last batch.
    current: Option<Buffer>,
    /// The last event of `next_urgent`.
    urgent: Option<Buffer>,
    gathering: Gathering,
    /// Bytes of returned elements and events, including lengths.
    bytes: u64,
}

/// Barriers of one checkpoint that are counted instead of returned.
#[derive(Debug, Default)]
struct Gathering {
    /// The barrier; empty if none is gathered, or if the next one decides.
    event: Vec<u8>,
    /// Number of barriers still to arrive.
    left: usize,
    gathered: Gathered,
}

/// Barriers that were counted instead of returned.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The channels whose barriers have arrived.
    pub channels: Vec<usize>,
    /// The first one, if it was not named in advance.
    pub first: Option<FirstBarrier>,
}

/// The first, counted barrier of a checkpoint.
#[derive(Debug)]
pub struct FirstBarrier {
    /// The serialized event.
    pub event: Vec<u8>,
    /// Its arrival: its channel had no data to read before it.
    pub came: Instant,
    /// Bytes of elements and events returned before, including lengths.
    pub bytes: u64,
}

impl Gathering {
    /// Returns whether an event is one of these barriers, except for the last one.
    fn takes(&self, buffer: &Buffer) -> bool {
        self.left > 1
            && buffer.data_type() == DataType::AlignedCheckpointBarrier
            && (self.event.is_empty() || buffer.as_slice() == self.event)
    }

    /// Counts a barrier.
    fn add(&mut self, channel: usize, event: &[u8], gate: &InputGate, bytes: u64) {
        self.left -= 1;
        self.gathered.channels.push(channel);
        let is_first = self.event.is_empty();
        if is_first {
            self.event.extend_from_slice(event);
        }
        let unheard = gate.expect_barriers(&self.event, self.left);
        if is_first {
            self.gathered.first = Some(FirstBarrier {
                event: self.event.clone(),
                came: unheard.unwrap_or_else(Instant::now),
                bytes,
            });
        }
    }
}

/// Meaning of the last taken buffer.
enum Taken {
    Nothing,
    Woken,
    Data {
        channel: usize,
        records: Range<usize>,
    },
    Event {
        channel: usize,
    },
    End,
}

impl RecordReader {
    /// Reads from `gate`, whose own `next_buffer` must no longer be called.
    #[must_use]
    pub fn new(gate: InputGate, limits: &FramingLimits) -> Self {
        let deserializers = (0..gate.num_channels())
            .map(|_| RecordDeserializer::new(limits.clone()))
            .collect();
        Self {
            gate,
            deserializers,
            current: None,
            urgent: None,
            gathering: Gathering::default(),
            bytes: 0,
        }
    }

    /// Returns the gate.
    #[must_use]
    pub fn gate(&self) -> &InputGate {
        &self.gate
    }

    /// Returns the last batch's buffer and takes the next batch, waiting up to `timeout` (`None`:
    /// no limit).
    ///
    /// # Errors
    /// `CancelTask` if the gate is closed, a channel's error, `CorruptStream` if the bytes are not
    /// records.
    pub fn next_batch(&mut self, timeout: Option<Duration>) -> Result<Batch<'_>> {
        self.poll(Wait::after(timeout))
    }

    /// Like `next_batch` without waiting.
    ///
    /// # Errors
    /// See `next_batch`.
    pub fn try_next_batch(&mut self) -> Result<Batch<'_>> {
        self.poll(Wait::Never)
    }

    /// Takes the next event that overtakes data, if there is one; the last batch stays valid.
    ///
    /// # Errors
    /// See `next_batch`.
    pub fn next_urgent(&mut self) -> Result<Batch<'_>> {
        self.urgent = None;
        let Some(BufferOrEvent {
            channel, buffer, ..
        }) = self.gate.next_urgent()?
        else {
            return Ok(Batch::Nothing);
        };
        let buffer = self.urgent.insert(buffer);
        self.bytes += buffer.size() as u64;
        Ok(Batch::Event {
            channel,
            data_type: buffer.data_type(),
            bytes: buffer.as_slice(),
        })
    }

    /// Returns the last batch's buffer.
    pub fn release_batch(&mut self) {
        self.current = None;
    }

    /// Counts aligned barriers that equal `event` from now on instead of returning them, except for
    /// the last of the `left` ones still to arrive; their channels stay blocked.  An empty `event`
    /// stands for the next aligned barrier.
    ///
    /// A reader without other input sleeps until the last one has arrived.
    pub fn gather(&mut self, event: &[u8], left: usize) {
        self.gathering.event.clear();
        self.gathering.event.extend_from_slice(event);
        self.gathering.left = left;
        self.gate.expect_barriers(event, left);
    }

    /// Stops counting and returns the counted barriers.
    pub fn take_gathered(&mut self) -> Gathered {
        self.gate.expect_barriers(&[], 0);
        std::mem::take(&mut self.gathering).gathered
    }

    /// Returns the bytes of `channel` that belong to no delivered record, for replay before the
    /// rest of its stream.
    ///
    /// # Errors
    /// `IllegalState` without such a channel, `Io` if a spilled record cannot be read back.
    pub fn unconsumed(&mut self, channel: usize) -> Result<Vec<u8>> {
        match self.deserializers.get_mut(channel) {
            Some(deserializer) => deserializer.unconsumed(),
            None => Err(Error::IllegalState(format!(
                "channel {channel} of a gate with {}",
                self.deserializers.len()
            ))),
        }
    }

    fn poll(&mut self, wait: Wait) -> Result<Batch<'_>> {
        let taken = self.take(wait)?;
        self.bytes += self.len_of(&taken) as u64;
        let bytes = self.current.as_ref().map_or(&[][..], Buffer::as_slice);
        let data_type = self
            .current
            .as_ref()
            .map_or(DataType::None, Buffer::data_type);
        Ok(match taken {
            Taken::Nothing => Batch::Nothing,
            Taken::Woken => Batch::Woken,
            Taken::End => Batch::End,
            Taken::Event { channel } => Batch::Event {
                channel,
                data_type,
                bytes,
            },
            Taken::Data { channel, records } => Batch::Data {
                channel,
                data_type,
                spanning: self.deserializers[channel].spanning(),
                records: &bytes[records],
            },
        })
    }

    /// Returns the size in bytes of a batch's elements or event, including lengths.
    fn len_of(&self, taken: &Taken) -> usize {
        match taken {
            Taken::Event { .. } => self.current.as_ref().map_or(0, Buffer::size),
            Taken::Data { channel, records } => {
                let spanning = self.deserializers[*channel].spanning();
                records.len() + spanning.map_or(0, |payload| payload.len() + LENGTH_BYTES)
            }
            Taken::Nothing | Taken::Woken | Taken::End => 0,
        }
    }

    /// Takes buffers until one completes a record or is an event.
    fn take(&mut self, wait: Wait) -> Result<Taken> {
        loop {
            self.current = None;
            let BufferOrEvent {
                channel, buffer, ..
            } = match self.gate.poll(wait)? {
                Next::Buffer(next) => next,
                Next::Nothing => return Ok(Taken::Nothing),
                Next::Woken => return Ok(Taken::Woken),
                Next::End => return Ok(Taken::End),
            };
            let deserializer = &mut self.deserializers[channel];
            let data_type = buffer.data_type();
            if !data_type.is_buffer() {
                // Recovered data may end inside of a record, which the data after it completes.
                let may_split =
                    data_type.has_priority() || data_type == DataType::RecoveryCompletion;
                if !may_split && deserializer.has_pending() {
                    return Err(Error::CorruptStream(format!(
                        "broken serialization: an event of type {} on channel {channel} follows \
                         part of a record",
                        data_type.ordinal()
                    )));
                }
                if data_type == DataType::EndOfPartition {
                    deserializer.clear();
                }
                if self.gathering.takes(&buffer) {
                    self.gathering
                        .add(channel, buffer.as_slice(), &self.gate, self.bytes);
                    continue;
                }
                self.current = Some(buffer);
                return Ok(Taken::Event { channel });
            }
            let records = deserializer.feed(&buffer)?;
            if !records.is_empty() || deserializer.spanning().is_some() {
                self.current = Some(buffer);
                return Ok(Taken::Data { channel, records });
            }
        }
    }
}
