//! The consuming end of a connection: its channels and the producer's messages.

use std::collections::HashSet;

use penstock_memory::{Buffer, DataType};

use super::connection::exceeds_staging;
use super::inbound::{Inbound, Payload, PayloadKind, Target};
use super::lending::Borrower;
use super::outbound::Outbound;
use super::receivers::ReceiverMap;
use super::socket::Peer;
use crate::error::{Error, Result};
use crate::event::MAX_EVENT_BYTES;
use crate::gate::{Due, RemoteInputChannel, SingleInputGate};
use crate::sync::Arc;
use crate::wire::{
    BUFFER_REFERENCE, BUFFER_RESPONSE, BUFFER_RESPONSE_BYTES, BufferReference, BufferResponse,
    ErrorBody, FrameHeader, HEADER_BYTES, Message, ReceiverId, decode_body, decompress,
};

/// Maximum number of frames whose readers are not yet woken while the socket has more.
const MAX_HELD_FRAMES: usize = 32;
/// Maximum number of bytes whose readers are not yet woken while the socket has more.
const MAX_HELD_BYTES: usize = 128 << 10;

/// Number of references that are returned separately; fewer wait to accompany credits.
const MAX_OWED_REFERENCES: i32 = 32;

/// The channels of a connection.
#[derive(Default)]
pub(super) struct ClientChannels {
    channels: ReceiverMap<Arc<RemoteInputChannel>>,
    /// Channels that have requested their partition a second time.
    asked_again: HashSet<ReceiverId>,
    /// Gates with data that were not announced, and the frames and bytes that have arrived since
    /// the first of them.
    held: Vec<Arc<SingleInputGate>>,
    held_frames: usize,
    held_bytes: usize,
    /// Channels with credits to announce when the reader is idle.
    owing: Vec<ReceiverId>,
    /// Reads buffers of the producer's references.
    borrower: Option<Borrower>,
    /// The last event: a broadcast event arrives on every channel, and is stored once.
    last_event: Option<Buffer>,
}

impl ClientChannels {
    pub(super) fn insert(&mut self, channel: Arc<RemoteInputChannel>) {
        self.channels.insert(channel.id, channel);
    }

    /// Removes a channel; returns false if it is absent.
    pub(super) fn remove(&mut self, id: &ReceiverId) -> bool {
        self.asked_again.remove(id);
        self.channels.remove(id).is_some()
    }

    pub(super) fn contains(&self, id: &ReceiverId) -> bool {
        self.channels.contains_key(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<RemoteInputChannel>> {
        self.channels.values()
    }

    /// Fails every channel, as the connection is lost.
    pub(super) fn fail(&mut self, error: &Error) {
        for (_, channel) in self.channels.drain() {
            channel.on_error(error.clone());
        }
    }

    /// Accepts references from now on.
    pub(super) fn borrow_by(&mut self, borrower: Borrower) {
        self.borrower = Some(borrower);
    }

    /// Handles the whole frames read so far, at most `left`, which it decreases; returns the number
    /// of bytes copied from the producer's memory.
    pub(super) fn handle_frames(
        &mut self,
        inbound: &mut Inbound,
        outbound: &mut Outbound,
        peer: Peer,
        left: &mut usize,
    ) -> Result<usize> {
        let mut copied = 0;
        while *left > 0 {
            if inbound.in_payload() {
                match inbound.take_payload() {
                    Some(payload) => self.on_payload(payload, outbound, peer)?,
                    None => return Ok(copied),
                }
                *left -= 1;
                continue;
            }
            let staged = inbound.staged();
            let Some((header, rest)) = staged.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(copied);
            };
            let header = FrameHeader::decode(header, MAX_EVENT_BYTES)?;
            if header.id == BUFFER_RESPONSE {
                let Some(fields) = rest.first_chunk() else {
                    return Ok(copied);
                };
                let response = BufferResponse::decode(fields, header.body_bytes)?;
                let size = response.size as usize;
                if let Some(event) = rest.get(fields.len()..fields.len() + size)
                    && data_type(&response)?.is_event()
                {
                    // Whole in the staging area, like most events.
                    self.on_event(&response, event, outbound)?;
                    inbound.consume(BUFFER_RESPONSE_BYTES + size);
                    *left -= 1;
                    continue;
                }
                inbound.consume(BUFFER_RESPONSE_BYTES);
                let target = self.target(&response)?;
                inbound.begin_payload(PayloadKind::Buffer(response), size, target);
            } else if let Some(body) = rest.get(..header.body_bytes) {
                if header.id == BUFFER_REFERENCE {
                    let reference = BufferReference::decode(body)?;
                    inbound.consume(HEADER_BYTES + header.body_bytes);
                    self.on_reference(&reference, outbound)?;
                    copied += reference.response.size as usize;
                    *left -= 1;
                    continue;
                }
                let message = decode_body(header.id, body)?;
                inbound.consume(HEADER_BYTES + header.body_bytes);
                self.on_message(message, outbound, peer)?;
                *left -= 1;
            } else if exceeds_staging(HEADER_BYTES + header.body_bytes) {
                inbound.consume(HEADER_BYTES);
                let target = Target::Heap(vec![0; header.body_bytes]);
                inbound.begin_payload(PayloadKind::Control(header.id), header.body_bytes, target);
            } else {
                return Ok(copied);
            }
        }
        Ok(copied)
    }

    /// Returns whether the producer should not wait longer for its buffers.
    pub(super) fn owes_many(&self) -> bool {
        let owed = self.borrower.as_ref().map_or(0, Borrower::owed);
        owed >= MAX_OWED_REFERENCES
    }

    /// Returns the producer's buffers to it.
    pub(super) fn return_references(&mut self, outbound: &mut Outbound) {
        let count = self.borrower.as_mut().map_or(0, Borrower::take_owed);
        if count > 0 {
            outbound.push_message(&Message::ReturnReferences { count });
        }
    }

    /// Returns whether there are credits to announce when the reader is idle.
    pub(super) fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Announces deferred credits to the producer.
    pub(super) fn announce_owed(&mut self, outbound: &mut Outbound) {
        for receiver in self.owing.drain(..) {
            if let Some(channel) = self.channels.get(&receiver) {
                announce(receiver, channel.take_credits(), outbound);
            }
        }
    }

    /// Wakes the readers of arrived data.
    ///
    /// While the socket has more, a few frames are gathered for one wake-up: a reader woken for
    /// each buffer of a stream would spend its time falling asleep.
    pub(super) fn announce_gates(&mut self) {
        self.held_frames = 0;
        self.held_bytes = 0;
        for gate in self.held.drain(..) {
            gate.announce();
        }
    }

    /// Returns the target of a buffer's payload.
    fn target(&self, response: &BufferResponse) -> Result<Target> {
        let size = response.size as usize;
        let Some(channel) = self.channels.get(&response.receiver) else {
            return Ok(Target::Skip);
        };
        let data_type = data_type(response)?;
        if size == 0 {
            return Ok(Target::Heap(Vec::new()));
        }
        if data_type.is_event() && response.compressed {
            return Err(Error::CorruptStream("a compressed event".into()));
        }
        // A compressed payload gets its buffer when it is complete.
        if data_type.is_event() || response.compressed {
            return Ok(Target::Heap(vec![0; size]));
        }
        match channel.take_buffer()? {
            Some(buffer) if buffer.capacity() < size => Err(too_large(size, buffer.capacity())),
            Some(buffer) => Ok(Target::Pooled(buffer)),
            None => Ok(Target::Skip),
        }
    }

    /// Copies the buffer of a reference into a buffer of its channel.
    fn on_reference(&mut self, reference: &BufferReference, outbound: &mut Outbound) -> Result<()> {
        let response = &reference.response;
        let Some(borrower) = &mut self.borrower else {
            return Err(Error::CorruptStream(
                "a reference to memory not shown".into(),
            ));
        };
        borrower.borrow();
        let data_type = data_type(response)?;
        if !data_type.is_buffer() {
            return Err(Error::CorruptStream("a reference to an event".into()));
        }
        let Some(channel) = self.channels.get(&response.receiver) else {
            return Ok(());
        };
        let Some(mut buffer) = channel.take_buffer()? else {
            return Ok(());
        };
        let (size, capacity) = (response.size as usize, buffer.capacity());
        let Some(into) = buffer.as_mut_slice().get_mut(..size) else {
            return Err(too_large(size, capacity));
        };
        borrower.copy(reference.offset, into)?;
        buffer.set_size(size)?;
        let buffer = Some(buffer.into_buffer(data_type));
        let arrived = channel.on_buffer(buffer, response.sequence_number, response.backlog);
        self.on_arrived(response, arrived, outbound);
        Ok(())
    }

    fn on_event(
        &mut self,
        response: &BufferResponse,
        event: &[u8],
        outbound: &mut Outbound,
    ) -> Result<()> {
        if response.compressed {
            return Err(Error::CorruptStream("a compressed event".into()));
        }
        let Some(channel) = self.channels.get(&response.receiver) else {
            return Ok(());
        };
        let data_type = data_type(response)?;
        let buffer = (!event.is_empty()).then(|| {
            let last = self.last_event.take();
            let same = last.filter(|last| last.data_type() == data_type && last[..] == *event);
            let buffer = same.unwrap_or_else(|| Buffer::from_bytes(event, data_type));
            self.last_event.insert(buffer).clone()
        });
        let arrived = channel.on_buffer(buffer, response.sequence_number, response.backlog);
        self.on_arrived(response, arrived, outbound);
        Ok(())
    }

    /// Announces credits to the producer and notes the readers to wake.
    fn on_arrived(
        &mut self,
        response: &BufferResponse,
        (due, gate): (Due, Option<Arc<SingleInputGate>>),
        outbound: &mut Outbound,
    ) {
        self.on_due(response.receiver, due, outbound);
        self.held.extend(gate);
        self.held_frames += 1;
        self.held_bytes += response.size as usize;
        if self.held_frames >= MAX_HELD_FRAMES || self.held_bytes >= MAX_HELD_BYTES {
            self.announce_gates();
        }
    }

    fn on_due(&mut self, receiver: ReceiverId, due: Due, outbound: &mut Outbound) {
        match due {
            Due::No => {}
            Due::WhenIdle => self.owing.push(receiver),
            Due::Now(credit) => announce(receiver, credit, outbound),
        }
    }

    fn on_payload(&mut self, payload: Payload, outbound: &mut Outbound, peer: Peer) -> Result<()> {
        let response = match payload.kind {
            PayloadKind::Buffer(response) => response,
            PayloadKind::Control(id) => {
                let Target::Heap(body) = payload.target else {
                    return Err(Error::IllegalState(
                        "a control body in a pooled buffer".into(),
                    ));
                };
                return self.on_message(decode_body(id, &body)?, outbound, peer);
            }
        };
        let Some(channel) = self.channels.get(&response.receiver) else {
            return Ok(());
        };
        let data_type = data_type(&response)?;
        let buffer = match payload.target {
            Target::Skip => return Ok(()),
            Target::Heap(bytes) if bytes.is_empty() => None,
            Target::Heap(block) if response.compressed => {
                let Some(mut unique) = channel.take_buffer()? else {
                    return Ok(());
                };
                let count = decompress(&block, unique.as_mut_slice())?;
                unique.set_size(count)?;
                Some(unique.into_buffer(data_type))
            }
            Target::Heap(bytes) => Some(Buffer::from_bytes(bytes, data_type)),
            Target::Pooled(mut unique) => {
                unique.set_size(response.size as usize)?;
                Some(unique.into_buffer(data_type))
            }
        };
        let arrived = channel.on_buffer(buffer, response.sequence_number, response.backlog);
        self.on_arrived(&response, arrived, outbound);
        Ok(())
    }

    fn on_message(&mut self, message: Message, outbound: &mut Outbound, peer: Peer) -> Result<()> {
        match message {
            Message::ErrorResponse {
                error,
                receiver: Some(receiver),
            } => {
                self.on_channel_error(&receiver, remote_error(&error, peer), outbound);
                Ok(())
            }
            Message::ErrorResponse {
                error,
                receiver: None,
            } => Err(remote_error(&error, peer)),
            Message::BacklogAnnouncement { backlog, receiver } => {
                let backlog = usize::try_from(backlog)
                    .map_err(|_| Error::CorruptStream(format!("a backlog of {backlog} buffers")))?;
                if let Some(channel) = self.channels.get(&receiver) {
                    let due = channel.on_backlog(backlog);
                    self.on_due(receiver, due, outbound);
                }
                Ok(())
            }
            other => Err(Error::CorruptStream(format!(
                "{other:?} is no message of a producer"
            ))),
        }
    }
}

impl ClientChannels {
    /// Handles the producer's failure of a channel.
    ///
    /// If the producer has waited for the partition in vain, the channel requests it once more, at
    /// once: its task may have been slow to deploy (internals M21).
    fn on_channel_error(&mut self, id: &ReceiverId, error: Error, outbound: &mut Outbound) {
        // A channel that was released meanwhile needs no error.
        let Some(channel) = self.channels.get(id) else {
            return;
        };
        if matches!(error, Error::PartitionNotFound(_)) && self.asked_again.insert(*id) {
            outbound.push_message(&Message::PartitionRequest(channel.partition_request()));
            return;
        }
        let channel = Arc::clone(channel);
        self.remove(id);
        channel.on_error(error);
    }
}

/// Announces credits to the producer, if there are any.
fn announce(receiver: ReceiverId, credit: i32, outbound: &mut Outbound) {
    if credit > 0 {
        outbound.push_message(&Message::AddCredit { credit, receiver });
    }
}

fn too_large(size: usize, capacity: usize) -> Error {
    Error::CorruptStream(format!(
        "a buffer of {size} bytes for segments of {capacity}"
    ))
}

fn data_type(response: &BufferResponse) -> Result<DataType> {
    DataType::from_ordinal(response.data_type)
        .filter(|data_type| *data_type != DataType::None)
        .ok_or_else(|| Error::CorruptStream(format!("data type {}", response.data_type)))
}

/// Converts an error of the producer into one of this side.
fn remote_error(body: &ErrorBody, peer: Peer) -> Error {
    let text = format!("{} (at remote task manager '{peer}')", body.message);
    Error::at_consumer(body.code, text)
}
