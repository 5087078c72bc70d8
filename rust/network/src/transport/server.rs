//! The producing end of a connection: a reader per consumer channel, their credits, and their turns
//! (internals M18).

mod messages;

use std::collections::VecDeque;

use penstock_memory::{Buffer, DataType};

use super::io_thread::Context;
use super::news::{News, ReaderListener};
use super::outbound::Outbound;
use super::receivers::ReceiverMap;
use super::waiting::Waiting;
use crate::error::{Error, Result};
use crate::partition::{
    AvailabilityListener, Listener, PartitionShared, Released, SubpartitionView,
};
use crate::sync::Arc;
use crate::wire::{BufferResponse, Compression, ErrorBody, Message, PartitionRequest, ReceiverId};

/// Buffers are fetched from subpartitions while fewer bytes than this are queued.
const OUTBOUND_BYTES: usize = 1 << 20;
/// Maximum number of readers that are checked for waiting for the consumer.
const MAX_ASKED_READERS: usize = 64;

/// The sending side of one consumer channel.
struct Reader {
    receiver: ReceiverId,
    subpartition: usize,
    credits: i32,
    initial_credit: i32,
    /// True if it is in the queue of readers with data.
    queued: bool,
    /// True if an event was sent that blocks until the consumer resumes.
    blocked: bool,
    compression: Compression,
    /// The partition, once it is registered, and its listener.
    view: Option<(SubpartitionView, Arc<ReaderListener>)>,
}

impl Reader {
    fn needs_backlog_announcement(&self) -> bool {
        self.initial_credit == 0 && self.credits == 0
    }

    /// Returns whether it could send after a message of the consumer.
    fn waits(&self) -> bool {
        let has_more = |(view, _): &(SubpartitionView, _)| view.is_available(true);
        !self.queued && (self.blocked || self.view.as_ref().is_some_and(has_more))
    }
}

/// The readers of a connection.
///
/// Inside the connection they have numbers; a number is free again once its reader is removed, and
/// late news of the old one only make the new one check in vain.
pub(super) struct ServerReaders {
    connection: usize,
    context: Arc<Context>,
    news: Arc<News>,
    /// Buffer for the news being handled.
    taken: Vec<u32>,
    readers: Vec<Option<Reader>>,
    numbers: ReceiverMap<u32>,
    /// Numbers without a reader.
    free: Vec<u32>,
    /// Readers with data, in turn.
    available: VecDeque<u32>,
    /// Partitions whose writers do not yet receive arrivals.
    attached: Vec<Arc<PartitionShared>>,
    /// Set when a reader has started to wait for the consumer.
    waiting: bool,
    /// Set when a reader has spent its last credit.
    spent: bool,
    /// Set when a message of the consumer allowed something to be sent.
    moved: bool,
}

impl ServerReaders {
    pub(super) fn new(connection: usize, context: Arc<Context>, news: News) -> Self {
        Self {
            connection,
            context,
            news: Arc::new(news),
            taken: Vec::new(),
            readers: Vec::new(),
            numbers: ReceiverMap::default(),
            free: Vec::new(),
            available: VecDeque::new(),
            attached: Vec::new(),
            waiting: false,
            spent: false,
            moved: false,
        }
    }

    /// Returns whether some reader waits for the consumer, as far as known.
    pub(super) fn wait(&self) -> bool {
        self.numbers.len() > MAX_ASKED_READERS || self.readers.iter().flatten().any(Reader::waits)
    }

    /// Checks all readers, as their news were taken.
    pub(super) fn ask_who_waits(&mut self) {
        self.waiting = self.wait();
    }

    /// Returns whether a reader has started to wait for the consumer since the last call.
    pub(super) fn take_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waiting)
    }

    /// Returns whether a reader has spent its last credit since the last call.
    pub(super) fn take_spent(&mut self) -> bool {
        std::mem::take(&mut self.spent)
    }

    /// Returns whether messages since the last call allowed something to be sent at once.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Returns the waiting places of writers whose partitions gained readers since the last call.
    pub(super) fn take_attached(&mut self) -> Result<Vec<Arc<Waiting>>> {
        let transport = &self.context.transport;
        let attached = self.attached.drain(..);
        attached
            .map(|partition| partition.writer_at(transport))
            .collect()
    }

    pub(super) fn has_available(&self) -> bool {
        !self.available.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Releases all readers, as the connection has ended.
    pub(super) fn release(&mut self) {
        let connection = self.connection;
        self.context.manager.forget(
            |listener| matches!(listener, Listener::Remote { connection: c, .. } if *c == connection),
        );
        self.available.clear();
        self.numbers.clear();
        self.free.clear();
        for reader in self.readers.drain(..).flatten() {
            if let Some((view, _)) = reader.view {
                view.release();
            }
        }
    }

    /// Attaches a reader to its registered partition.
    pub(super) fn attach(
        &mut self,
        receiver: &ReceiverId,
        partition: Arc<PartitionShared>,
        outbound: &mut Outbound,
    ) {
        // Absent if the request was cancelled meanwhile.
        let news = Arc::clone(&self.news);
        let Some((number, reader)) = self.find(receiver) else {
            return;
        };
        let listener = Arc::new(ReaderListener::new(news, number));
        let ear: Arc<dyn AvailabilityListener> = Arc::<ReaderListener>::clone(&listener);
        let created = SubpartitionView::new(Arc::clone(&partition), reader.subpartition)
            .and_then(|view| view.connect(ear).map(|()| view));
        match created {
            Ok(view) => {
                reader.view = Some((view, listener));
                // Nothing is written to a blocking partition that is being read.
                if !partition.is_blocking() {
                    self.attached.push(partition);
                }
                self.enqueue(number, outbound);
            }
            Err(error) => self.fail_reader(number, &error, outbound),
        }
    }

    /// Fails a reader whose partition was not registered in time.
    pub(super) fn not_found(&mut self, request: &PartitionRequest, outbound: &mut Outbound) {
        let error = Error::PartitionNotFound(format!(
            "partition {} was not registered in time",
            crate::hex(&request.partition[..])
        ));
        if let Some((number, _)) = self.find(&request.receiver) {
            self.fail_reader(number, &error, outbound);
        }
    }

    /// Queues the readers whose subpartitions have reported data.
    pub(super) fn take_news(&mut self, outbound: &mut Outbound) {
        let mut taken = std::mem::take(&mut self.taken);
        self.news.take(&mut taken);
        for number in taken.drain(..) {
            if let Some(Some(Reader {
                view: Some((_, listener)),
                ..
            })) = self.readers.get(number as usize)
            {
                // Before checking, so that later news are posted again.
                listener.listen();
                self.enqueue(number, outbound);
            }
        }
        self.taken = taken;
    }

    fn find(&mut self, receiver: &ReceiverId) -> Option<(u32, &mut Reader)> {
        let number = *self.numbers.get(receiver)?;
        let reader = self.readers.get_mut(number as usize)?.as_mut()?;
        Some((number, reader))
    }

    /// Removes a reader and frees its number.
    fn forget(&mut self, number: u32) -> Option<Reader> {
        let reader = self.readers.get_mut(number as usize)?.take()?;
        self.numbers.remove(&reader.receiver);
        self.available.retain(|queued| *queued != number);
        self.free.push(number);
        Some(reader)
    }

    /// Queues a reader if it can send something; returns whether that is new.
    fn enqueue(&mut self, number: u32, outbound: &mut Outbound) -> bool {
        let Some(Some(reader)) = self.readers.get_mut(number as usize) else {
            return false;
        };
        let Some((view, _)) = &reader.view else {
            return false;
        };
        if reader.queued {
            return false;
        }
        if view.is_available(reader.credits > 0) || view.released().is_some() {
            reader.queued = true;
            self.available.push_back(number);
            return true;
        }
        self.waiting |= reader.credits == 0 && view.is_available(true);
        if reader.needs_backlog_announcement() {
            let backlog = view.backlog();
            if backlog > 0 {
                outbound.push_message(&Message::BacklogAnnouncement {
                    backlog,
                    receiver: reader.receiver,
                });
            }
        }
        false
    }

    /// Fetches buffers, one of each reader in turn, until enough is queued.
    pub(super) fn fill(&mut self, outbound: &mut Outbound) -> Result<()> {
        while outbound.bytes() < OUTBOUND_BYTES {
            let Some(number) = self.available.pop_front() else {
                return Ok(());
            };
            let Some(Some(reader)) = self.readers.get_mut(number as usize) else {
                continue;
            };
            reader.queued = false;
            let Some((view, _)) = &reader.view else {
                continue;
            };
            let polled = match view.poll() {
                // The disk of one partition fails its readers, not everybody on the connection.
                Err(error @ Error::Io(_)) => {
                    self.fail_reader(number, &error, outbound);
                    continue;
                }
                Err(Error::CancelTask(_)) => None,
                polled => polled?,
            };
            let Some(next) = polled else {
                if let Some(why) = view.released() {
                    let error = Error::ProducerFailed(match why {
                        Released::Failed(cause) => cause,
                        Released::Released => {
                            "the partition was released before it was consumed".into()
                        }
                    });
                    self.fail_reader(number, &error, outbound);
                }
                continue;
            };
            if next.buffer.data_type().is_buffer() {
                reader.credits -= 1;
                if reader.credits < 0 {
                    return Err(Error::IllegalState("no credit available".into()));
                }
                self.spent |= reader.credits == 0;
            }
            let mut buffer = next.buffer;
            reader.blocked = buffer.data_type().is_blocking_upstream();
            if buffer.data_type().is_buffer()
                && let Some(block) = reader.compression.compress(buffer.as_slice())
            {
                // The original returns to its pool here.
                buffer = Buffer::from_bytes(block, buffer.data_type());
                buffer.set_compressed(true);
            }
            let response = BufferResponse {
                receiver: reader.receiver,
                subpartition: reader.subpartition as i32,
                sequence_number: next.sequence_number,
                backlog: next.backlog,
                data_type: buffer.data_type().ordinal(),
                compressed: buffer.is_compressed(),
                size: buffer.size() as u32,
            };
            outbound.push_buffer(response, buffer);
            let more = match next.next_type {
                DataType::None => false,
                next_type => next_type.is_event() || reader.credits > 0,
            };
            self.waiting |= reader.blocked || (!more && next.next_type != DataType::None);
            if more {
                reader.queued = true;
                self.available.push_back(number);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, receiver: &ReceiverId) {
        let Some(&number) = self.numbers.get(receiver) else {
            return;
        };
        let Some(reader) = self.forget(number) else {
            return;
        };
        match reader.view {
            Some((view, _)) => view.release(),
            None => self.context.manager.forget(|listener| {
                matches!(listener, Listener::Remote { request, .. } if request.receiver == *receiver)
            }),
        }
    }

    /// Sends the error of a channel to the consumer and removes the reader.
    fn fail_reader(&mut self, number: u32, error: &Error, outbound: &mut Outbound) {
        let Some(reader) = self.forget(number) else {
            return;
        };
        if let Some((view, _)) = reader.view {
            view.release();
        }
        let error = ErrorBody {
            code: error.code().number(),
            message: error.to_string(),
        };
        outbound.push_message(&Message::ErrorResponse {
            error,
            receiver: Some(reader.receiver),
        });
    }
}
