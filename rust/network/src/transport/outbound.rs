//! Data queued for writing to a connection.
//!
//! One vectored write sends many frames; payload goes from the pool's segment to the kernel without
//! a copy, headers are in the frames themselves.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Write};

use penstock_memory::Buffer;

use super::lending::Lender;
use crate::error::{Error, Result};
use crate::wire::{BUFFER_RESPONSE_BYTES, BufferReference, BufferResponse, Message, encode};

/// Slices of one write: a header and a payload for 64 buffers.
const MAX_SLICES: usize = 128;

/// Size up to which payloads are copied behind their headers, which is cheaper than separate
/// slices.
const COPIED_BYTES: usize = 256;

enum Frame {
    /// Control messages, encoded one after another.
    Control(Vec<u8>),
    /// A header and its payload.
    Data {
        header: [u8; BUFFER_RESPONSE_BYTES],
        buffer: Buffer,
    },
}

impl Frame {
    fn len(&self) -> usize {
        match self {
            Self::Control(bytes) => bytes.len(),
            Self::Data { header, buffer } => header.len() + buffer.size(),
        }
    }
}

/// The write queue of a connection.
#[derive(Default)]
pub(super) struct Outbound {
    frames: VecDeque<Frame>,
    /// Number of bytes of the first frame already written.
    offset: usize,
    /// Number of bytes of all frames not yet written.
    bytes: usize,
    /// Lends buffers that the peer copies directly.
    pub(super) lender: Option<Lender>,
}

impl Outbound {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns whether a pool misses buffers that the peer has not returned.
    pub(super) fn misses_buffers(&self) -> bool {
        self.lender.as_ref().is_some_and(Lender::is_missed)
    }

    /// Takes back the oldest `count` references, whose bytes the peer has copied.
    ///
    /// # Errors
    /// `CorruptStream` if it was lent fewer.
    pub(super) fn take_back(&mut self, count: i32) -> Result<()> {
        match &mut self.lender {
            Some(lender) => lender.take_back(count),
            None => Err(Error::CorruptStream("buffers that were not lent".into())),
        }
    }

    /// Queues raw bytes.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        if let Some(Frame::Control(last)) = self.frames.back_mut() {
            last.extend_from_slice(bytes);
        } else {
            self.frames.push_back(Frame::Control(bytes.to_vec()));
        }
    }

    /// Queues a control message.
    pub(super) fn push_message(&mut self, message: &Message) {
        if !matches!(self.frames.back(), Some(Frame::Control(_))) {
            self.frames
                .push_back(Frame::Control(Vec::with_capacity(64)));
        }
        if let Some(Frame::Control(last)) = self.frames.back_mut() {
            let before = last.len();
            encode(message, last);
            self.bytes += last.len() - before;
        }
    }

    /// Queues a buffer behind its header, or a reference to it.
    pub(super) fn push_buffer(&mut self, response: BufferResponse, buffer: Buffer) {
        if let Some(lender) = &mut self.lender
            && let Some(offset) = lender.offset_of(&buffer)
        {
            lender.lend(buffer);
            self.push_bytes(&BufferReference { response, offset }.encode());
            return;
        }
        let header = response.encode();
        if buffer.size() <= COPIED_BYTES {
            self.push_bytes(&header);
            self.push_bytes(buffer.as_slice());
            return;
        }
        let frame = Frame::Data { header, buffer };
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// Queues all frames of `other` behind these.
    pub(super) fn append(&mut self, other: &mut Self) {
        debug_assert_eq!(other.offset, 0);
        self.bytes += std::mem::take(&mut other.bytes);
        self.frames.append(&mut other.frames);
    }

    /// Writes once; false if the socket accepts no more at present.
    pub(super) fn write(&mut self, stream: &mut impl Write) -> std::io::Result<bool> {
        if self.frames.is_empty() {
            return Ok(true);
        }
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let (mut count, mut offered) = (0, 0);
        let mut skip = self.offset;
        for frame in &self.frames {
            let (first, second): (&[u8], &[u8]) = match frame {
                Frame::Control(bytes) => (bytes, &[]),
                Frame::Data { header, buffer } => (header, buffer),
            };
            for part in [first, second] {
                let rest = &part[skip.min(part.len())..];
                skip -= part.len() - rest.len();
                if !rest.is_empty() {
                    slices[count] = IoSlice::new(rest);
                    offered += rest.len();
                    count += 1;
                }
            }
            if count + 2 > MAX_SLICES {
                break;
            }
        }
        match stream.write_vectored(&slices[..count]) {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                self.advance(written);
                // After a short write the socket reports when it accepts more.
                Ok(written == offered)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn advance(&mut self, written: usize) {
        self.bytes -= written;
        self.offset += written;
        while let Some(first) = self.frames.front() {
            let length = first.len();
            if self.offset < length {
                break;
            }
            self.offset -= length;
            self.frames.pop_front();
        }
    }
}
