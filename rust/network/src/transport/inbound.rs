//! Data read from a connection, and the target of the current frame.
//!
//! Headers and control frames pass through a staging area.  Payload is read directly into the
//! buffer of its channel: one vectored read fills the rest of the payload and stages the data after
//! it.  After a large payload only the next header is staged, so that large payloads are never
//! copied; small ones are staged together by the dozen.

use std::io::{ErrorKind, IoSliceMut, Read};

use penstock_memory::UniqueBuffer;

use crate::wire::{BUFFER_RESPONSE_BYTES, BufferResponse};

/// Maximum number of staged bytes.
pub(super) const STAGING_BYTES: usize = 64 << 10;
/// Maximum number of staged bytes before the peer has proved the token.
const HANDSHAKE_BYTES: usize = 128;
/// Size from which payloads are read apart from the data after them, in bytes.
const LARGE_PAYLOAD_BYTES: usize = 4 << 10;

/// Target of a payload.
pub(super) enum Target {
    /// A buffer of its channel.
    Pooled(UniqueBuffer),
    /// Separate memory: events.
    Heap(Vec<u8>),
    /// Nowhere: the channel is released, but the stream must stay in step.
    Skip,
}

/// Kind of a payload.
#[derive(Clone, Copy)]
pub(super) enum PayloadKind {
    /// A buffer or an event.
    Buffer(BufferResponse),
    /// The body of a control message too long for the staging area, with its id.
    Control(u8),
}

/// A payload being read.
pub(super) struct Payload {
    pub(super) kind: PayloadKind,
    pub(super) target: Target,
    size: usize,
    filled: usize,
}

impl Payload {
    fn missing(&self) -> usize {
        self.size - self.filled
    }

    fn rest(&mut self) -> &mut [u8] {
        let range = self.filled..self.size;
        match &mut self.target {
            Target::Pooled(buffer) => &mut buffer.as_mut_slice()[range],
            Target::Heap(bytes) => &mut bytes[range],
            Target::Skip => &mut [],
        }
    }
}

/// The read side of a connection.
pub(super) struct Inbound {
    staging: Box<[u8]>,
    start: usize,
    end: usize,
    payload: Option<Payload>,
    /// True if the last payload was large.
    large: bool,
}

impl Inbound {
    pub(super) fn new() -> Self {
        Self {
            staging: vec![0; HANDSHAKE_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            payload: None,
            large: false,
        }
    }

    /// Allocates the whole staging area, as the peer has proved the token.
    pub(super) fn open(&mut self) {
        let mut staging = vec![0; STAGING_BYTES].into_boxed_slice();
        staging[..self.end].copy_from_slice(&self.staging[..self.end]);
        self.staging = staging;
    }

    /// Returns the staged bytes that are not consumed.
    pub(super) fn staged(&self) -> &[u8] {
        &self.staging[self.start..self.end]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Starts a payload of `size` bytes for `target`.
    pub(super) fn begin_payload(&mut self, kind: PayloadKind, size: usize, target: Target) {
        self.large = size >= LARGE_PAYLOAD_BYTES && !matches!(target, Target::Skip);
        self.payload = Some(Payload {
            kind,
            target,
            size,
            filled: 0,
        });
    }

    /// Moves staged bytes into the current payload; returns it once it is complete.
    pub(super) fn take_payload(&mut self) -> Option<Payload> {
        let payload = self.payload.as_mut()?;
        let staged = &self.staging[self.start..self.end];
        let count = staged.len().min(payload.missing());
        if !matches!(payload.target, Target::Skip) {
            payload.rest()[..count].copy_from_slice(&staged[..count]);
        }
        payload.filled += count;
        let whole = payload.missing() == 0;
        self.consume(count);
        if whole { self.payload.take() } else { None }
    }

    /// Returns whether a payload has begun and is incomplete.
    pub(super) fn in_payload(&self) -> bool {
        self.payload.is_some()
    }

    /// Reads once; `None` if the socket has nothing at present, `Some((0, _))` at the end of the
    /// stream, else the number of bytes and whether they filled all the room.
    pub(super) fn read(
        &mut self,
        stream: &mut impl Read,
    ) -> std::io::Result<Option<(usize, bool)>> {
        if self.start > 0 {
            self.staging.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let limit = if self.large && self.end < BUFFER_RESPONSE_BYTES {
            // Never more than the next header, so that the payload behind it is not staged.
            BUFFER_RESPONSE_BYTES
        } else {
            self.staging.len()
        };
        let free = &mut self.staging[self.end..limit];
        let mut empty = [];
        let rest: &mut [u8] = self.payload.as_mut().map_or(&mut empty, Payload::rest);
        let direct = rest.len();
        let room = direct + free.len();
        let result = if direct > 0 {
            stream.read_vectored(&mut [IoSliceMut::new(rest), IoSliceMut::new(free)])
        } else {
            stream.read(free)
        };
        match result {
            Ok(count) => {
                let into_payload = count.min(direct);
                if let Some(payload) = &mut self.payload {
                    payload.filled += into_payload;
                }
                self.end += count - into_payload;
                Ok(Some((count, count == room)))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
