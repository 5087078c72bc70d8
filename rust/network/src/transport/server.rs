//! The producing end of a connection: a reader per consumer channel, their credits, and whose
//! turn it is (internals M18).

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

/// Buffers are fetched from subpartitions while fewer bytes than this wait to be written.
const OUTBOUND_BYTES: usize = 1 << 20;
/// Up to so many readers are asked whether one of them waits for the consumer.
const MAX_ASKED_READERS: usize = 64;

/// The sending side of one consumer channel.
struct Reader {
    receiver: ReceiverId,
    subpartition: usize,
    credits: i32,
    initial_credit: i32,
    /// True if it is in the queue of those with something to send.
    queued: bool,
    /// True if an event was sent behind which nothing leaves before the consumer says so.
    blocked: bool,
    compression: Compression,
    /// The partition, once it is registered, and the ear at it.
    view: Option<(SubpartitionView, Arc<ReaderListener>)>,
}

impl Reader {
    fn needs_backlog_announcement(&self) -> bool {
        self.initial_credit == 0 && self.credits == 0
    }

    /// Returns whether it could send something if the consumer said a word.
    fn waits(&self) -> bool {
        let has_more = |(view, _): &(SubpartitionView, _)| view.is_available(true);
        !self.queued && (self.blocked || self.view.as_ref().is_some_and(has_more))
    }
}

/// The readers of a connection.
///
/// Inside the connection they go by numbers; a number is free again once its reader is gone, and
/// late news of the old one only make the new one look in vain.
pub(super) struct ServerReaders {
    connection: usize,
    context: Arc<Context>,
    news: Arc<News>,
    /// Room for the news that are being looked at.
    taken: Vec<u32>,
    readers: Vec<Option<Reader>>,
    numbers: ReceiverMap<u32>,
    /// Numbers without a reader.
    free: Vec<u32>,
    /// Readers with something to send, in turn.
    available: VecDeque<u32>,
    /// Partitions whose writers are not told of arrivals yet.
    attached: Vec<Arc<PartitionShared>>,
    /// Set when a reader has come to wait for the consumer.
    waiting: bool,
    /// Set when a reader has spent its last credit.
    spent: bool,
    /// Set when the consumer has said something that changed what can be sent now.
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

    /// Returns whether some reader waits for the consumer, as far as is known.
    pub(super) fn wait(&self) -> bool {
        self.numbers.len() > MAX_ASKED_READERS || self.readers.iter().flatten().any(Reader::waits)
    }

    /// Asks all of them, for the news of it were taken.
    pub(super) fn ask_who_waits(&mut self) {
        self.waiting = self.wait();
    }

    /// Returns whether a reader has come to wait for the consumer since the last call.
    pub(super) fn take_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waiting)
    }

    /// Returns whether a reader has spent its last credit since the last call.
    pub(super) fn take_spent(&mut self) -> bool {
        std::mem::take(&mut self.spent)
    }

    /// Returns whether what the consumer has said since the last call made a difference at once.
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

    /// The connection is gone: nobody will read these subpartitions any more.
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

    /// The partition that a reader waited for is there.
    pub(super) fn attach(
        &mut self,
        receiver: &ReceiverId,
        partition: Arc<PartitionShared>,
        outbound: &mut Outbound,
    ) {
        // Gone when the request was cancelled meanwhile.
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
                // Nothing is written to a blocking one that somebody reads.
                if !partition.is_blocking() {
                    self.attached.push(partition);
                }
                self.enqueue(number, outbound);
            }
            Err(error) => self.fail_reader(number, &error, outbound),
        }
    }

    /// A reader's partition did not come in time.
    pub(super) fn not_found(&mut self, request: &PartitionRequest, outbound: &mut Outbound) {
        let error = Error::PartitionNotFound(format!(
            "partition {} was not registered in time",
            crate::hex(&request.partition[..])
        ));
        if let Some((number, _)) = self.find(&request.receiver) {
            self.fail_reader(number, &error, outbound);
        }
    }

    /// Lines up the readers whose subpartitions say that there is something for them.
    pub(super) fn take_news(&mut self, outbound: &mut Outbound) {
        let mut taken = std::mem::take(&mut self.taken);
        self.news.take(&mut taken);
        for number in taken.drain(..) {
            if let Some(Some(Reader {
                view: Some((_, listener)),
                ..
            })) = self.readers.get(number as usize)
            {
                // Before looking, so that later news are posted again.
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

    /// Removes a reader and gives its number free.
    fn forget(&mut self, number: u32) -> Option<Reader> {
        let reader = self.readers.get_mut(number as usize)?.take()?;
        self.numbers.remove(&reader.receiver);
        self.available.retain(|queued| *queued != number);
        self.free.push(number);
        Some(reader)
    }

    /// Lines a reader up if it can send something; whether that is new.
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

    /// Fetches buffers, one of each reader in turn, until enough waits to be written.
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
                // The original goes back to its pool here.
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

    /// Tells the consumer why its channel ends and forgets the reader.
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
