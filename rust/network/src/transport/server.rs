//! The producing end of a connection: a reader per consumer channel, their credits, and whose
//! turn it is (SEMANTICS C4).

use std::collections::VecDeque;
use std::time::Instant;

use penstock_memory::{Buffer, DataType};

use super::connection::exceeds_staging;
use super::inbound::{Inbound, PayloadKind, Target};
use super::io_thread::Context;
use super::news::{News, ReaderListener};
use super::outbound::Outbound;
use super::receivers::ReceiverMap;
use crate::error::{Error, Result};
use crate::partition::{
    AvailabilityListener, Listener, PartitionShared, Released, SubpartitionView, check_task_event,
};
use crate::sync::Arc;
use crate::wire::{
    ADD_CREDIT, BUFFER_RESPONSE, BufferResponse, Compression, ErrorBody, ErrorTexts, FrameHeader,
    HEADER_BYTES, Message, PartitionRequest, ReceiverId, decode_body,
};

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
    /// Whether it is in the queue of those with something to send.
    queued: bool,
    /// Whether an event was sent behind which nothing leaves before the consumer says so.
    blocked: bool,
    compression: Compression,
    /// The partition, once it is registered, and the ear at it.
    view: Option<(SubpartitionView, Arc<ReaderListener>)>,
}

impl Reader {
    fn needs_backlog_announcement(&self) -> bool {
        self.initial_credit == 0 && self.credits == 0
    }

    /// Whether it could send something if the consumer said a word.
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
    news: Arc<News>,
    /// Room for the news that are being looked at.
    taken: Vec<u32>,
    readers: Vec<Option<Reader>>,
    numbers: ReceiverMap<u32>,
    /// Numbers without a reader.
    free: Vec<u32>,
    /// Readers with something to send, in turn.
    available: VecDeque<u32>,
    /// Set when a reader has come to wait for the consumer.
    waiting: bool,
    /// Set when the consumer has said something that changed what can be sent now.
    moved: bool,
}

impl ServerReaders {
    pub(super) fn new(connection: usize, news: News) -> Self {
        Self {
            connection,
            news: Arc::new(news),
            taken: Vec::new(),
            readers: Vec::new(),
            numbers: ReceiverMap::default(),
            free: Vec::new(),
            available: VecDeque::new(),
            waiting: false,
            moved: false,
        }
    }

    /// Whether some reader waits for the consumer, as far as is known.
    pub(super) fn wait(&self) -> bool {
        self.numbers.len() > MAX_ASKED_READERS || self.readers.iter().flatten().any(Reader::waits)
    }

    /// Asks all of them, for the news of it were taken.
    pub(super) fn ask_who_waits(&mut self) {
        self.waiting = self.wait();
    }

    /// Whether a reader has come to wait for the consumer since the last call.
    pub(super) fn take_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waiting)
    }

    /// Whether what the consumer has said since the last call made a difference at once.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn has_available(&self) -> bool {
        !self.available.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The connection is gone: nobody will read these subpartitions any more.
    pub(super) fn release(&mut self, context: &Context) {
        let connection = self.connection;
        context.manager.forget(
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

    /// Handles every whole frame that has been read.
    pub(super) fn handle_frames(
        &mut self,
        inbound: &mut Inbound,
        outbound: &mut Outbound,
        context: &Context,
    ) -> Result<()> {
        loop {
            if inbound.in_payload() {
                let Some(payload) = inbound.take_payload() else {
                    return Ok(());
                };
                let (PayloadKind::Control(id), Target::Heap(body)) = (payload.kind, payload.target)
                else {
                    return Err(Error::IllegalState(
                        "a consumer's message in a buffer".into(),
                    ));
                };
                self.on_message(decode_body(id, &body)?, outbound, context)?;
                continue;
            }
            let staged = inbound.staged();
            let Some((header, rest)) = staged.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(());
            };
            let header = FrameHeader::decode(header, 0)?;
            if header.id == BUFFER_RESPONSE {
                return Err(Error::CorruptStream("a consumer sends buffers".into()));
            }
            if let Some(body) = rest.get(..header.body_bytes) {
                let message = decode_body(header.id, body)?;
                inbound.consume(HEADER_BYTES + header.body_bytes);
                self.on_message(message, outbound, context)?;
            } else if exceeds_staging(HEADER_BYTES + header.body_bytes) {
                inbound.consume(HEADER_BYTES);
                let target = Target::Heap(vec![0; header.body_bytes]);
                inbound.begin_payload(PayloadKind::Control(header.id), header.body_bytes, target);
            } else {
                return Ok(());
            }
        }
    }

    /// Handles the credits that have been read, up to anything else; whether there is something
    /// else.
    pub(super) fn take_credits(
        &mut self,
        inbound: &mut Inbound,
        outbound: &mut Outbound,
    ) -> Result<bool> {
        while !inbound.in_payload()
            && let Some((header, rest)) = inbound.staged().split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::decode(header, 0)?;
            let Some(body) = rest.get(..header.body_bytes) else {
                break;
            };
            if header.id != ADD_CREDIT {
                return Ok(true);
            }
            let message = decode_body(header.id, body)?;
            inbound.consume(HEADER_BYTES + header.body_bytes);
            if let Message::AddCredit { credit, receiver } = message {
                self.on_credit(credit, &receiver, outbound)?;
            }
        }
        Ok(!inbound.staged().is_empty() || inbound.in_payload())
    }

    fn on_credit(
        &mut self,
        credit: i32,
        receiver: &ReceiverId,
        outbound: &mut Outbound,
    ) -> Result<()> {
        if credit <= 0 {
            return Err(Error::CorruptStream(format!("a credit of {credit}")));
        }
        if let Some((number, reader)) = self.find(receiver) {
            reader.credits = reader
                .credits
                .checked_add(credit)
                .ok_or_else(|| Error::CorruptStream("more credit than buffers exist".into()))?;
            self.moved |= self.enqueue(number, outbound);
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        message: Message,
        outbound: &mut Outbound,
        context: &Context,
    ) -> Result<()> {
        self.moved |= !matches!(message, Message::AddCredit { .. });
        match message {
            Message::PartitionRequest(request) => self.on_request(request, outbound, context)?,
            Message::AddCredit { credit, receiver } => {
                self.on_credit(credit, &receiver, outbound)?;
            }
            Message::ResumeConsumption { receiver } => {
                if let Some((number, reader)) = self.find(&receiver)
                    && let Some((view, _)) = &reader.view
                {
                    if reader.initial_credit == 0 {
                        reader.credits = 0;
                    }
                    reader.blocked = false;
                    match view.resume_consumption() {
                        Ok(()) => {
                            self.enqueue(number, outbound);
                        }
                        Err(error) => self.fail_reader(number, &error, outbound),
                    }
                }
            }
            Message::CancelPartitionRequest { receiver } => self.cancel(&receiver, context),
            Message::CloseRequest => self.release(context),
            Message::NewBufferSize { size, receiver } => {
                let size = usize::try_from(size)
                    .map_err(|_| Error::CorruptStream(format!("a buffer size of {size}")))?;
                if let Some((_, reader)) = self.find(&receiver)
                    && let Some((view, _)) = &reader.view
                    && size > 0
                {
                    view.set_desired_buffer_size(size);
                }
            }
            Message::AckAllUserRecordsProcessed { .. } => {}
            Message::TaskEventRequest {
                event,
                partition,
                receiver,
            } => {
                check_task_event(&event)?;
                if let Err(error) = context.manager.publish_task_event(&partition, event)
                    && let Some((number, _)) = self.find(&receiver)
                {
                    self.fail_reader(number, &error, outbound);
                }
            }
            Message::UseSharedMemory => match &mut outbound.lender {
                Some(lender) => lender.accept()?,
                None => {
                    return Err(Error::CorruptStream("memory that was not shown".into()));
                }
            },
            Message::ReturnReferences { count } => match &mut outbound.lender {
                Some(lender) => lender.take_back(count)?,
                None => return Err(Error::CorruptStream("buffers that were not lent".into())),
            },
            Message::SegmentId { .. } => {
                log::warn!("nothing here keeps segments; message ignored");
            }
            Message::ErrorResponse { .. } | Message::BacklogAnnouncement { .. } => {
                return Err(Error::CorruptStream(format!(
                    "{message:?} is no consumer's message"
                )));
            }
        }
        Ok(())
    }

    fn on_request(
        &mut self,
        request: PartitionRequest,
        outbound: &mut Outbound,
        context: &Context,
    ) -> Result<()> {
        let (Ok(subpartition), true) = (
            usize::try_from(request.index_start),
            request.index_start == request.index_end,
        ) else {
            return Err(Error::CorruptStream(format!(
                "a request for subpartitions {}..={}",
                request.index_start, request.index_end
            )));
        };
        if request.initial_credit < 0 {
            return Err(Error::CorruptStream("a negative initial credit".into()));
        }
        if self.numbers.contains_key(&request.receiver) {
            return Err(Error::CorruptStream(
                "a receiver that requests twice".into(),
            ));
        }
        let reader = Reader {
            receiver: request.receiver,
            subpartition,
            credits: request.initial_credit,
            initial_credit: request.initial_credit,
            queued: false,
            blocked: false,
            compression: context.config.compression,
            view: None,
        };
        let number = self.free.pop().unwrap_or(self.readers.len() as u32);
        if number as usize == self.readers.len() {
            self.readers.push(None);
        }
        self.readers[number as usize] = Some(reader);
        self.numbers.insert(request.receiver, number);
        let deadline = Instant::now() + context.config.partition_request_timeout;
        let connection = self.connection;
        let listener = || Listener::Remote {
            connection,
            request: request.clone(),
        };
        if let Some(found) = context
            .manager
            .find_or_wait(&request.partition, deadline, listener)
        {
            self.attach(&request.receiver, found, outbound);
        }
        Ok(())
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
        let created = SubpartitionView::new(partition, reader.subpartition)
            .and_then(|view| view.connect(ear).map(|()| view));
        match created {
            Ok(view) => {
                reader.view = Some((view, listener));
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

    fn cancel(&mut self, receiver: &ReceiverId, context: &Context) {
        let Some(&number) = self.numbers.get(receiver) else {
            return;
        };
        let Some(reader) = self.forget(number) else {
            return;
        };
        match reader.view {
            Some((view, _)) => view.release(),
            None => context.manager.forget(|listener| {
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
            error: ErrorTexts {
                class: format!("penstock.errors.{}", error.class_name()),
                message: error.to_string(),
                traceback: String::new(),
            },
            causes: Vec::new(),
        };
        outbound.push_message(&Message::ErrorResponse {
            error,
            receiver: Some(reader.receiver),
        });
    }
}
