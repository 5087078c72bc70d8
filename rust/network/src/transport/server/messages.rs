//! Messages of consumers.

use std::time::Instant;

use super::{Reader, ServerReaders};
use crate::error::{Error, Result};
use crate::partition::{Listener, check_task_event};
use crate::transport::connection::exceeds_staging;
use crate::transport::inbound::{Inbound, PayloadKind, Target};
use crate::transport::outbound::Outbound;
use crate::wire::{
    ADD_CREDIT, BUFFER_RESPONSE, FrameHeader, HEADER_BYTES, Message, PartitionRequest,
    RETURN_REFERENCES, ReceiverId, decode_body,
};

impl ServerReaders {
    /// Handles every whole frame that has been read.
    pub(in crate::transport) fn handle_frames(
        &mut self,
        inbound: &mut Inbound,
        outbound: &mut Outbound,
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
                self.on_message(decode_body(id, &body)?, outbound)?;
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
                self.on_message(message, outbound)?;
            } else if exceeds_staging(HEADER_BYTES + header.body_bytes) {
                inbound.consume(HEADER_BYTES);
                let target = Target::Heap(vec![0; header.body_bytes]);
                inbound.begin_payload(PayloadKind::Control(header.id), header.body_bytes, target);
            } else {
                return Ok(());
            }
        }
    }

    /// Handles credits and returned references that have been read, up to any other frame; returns
    /// whether there is one.
    pub(in crate::transport) fn take_credits(
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
            if !matches!(header.id, ADD_CREDIT | RETURN_REFERENCES) {
                return Ok(true);
            }
            let message = decode_body(header.id, body)?;
            inbound.consume(HEADER_BYTES + header.body_bytes);
            match message {
                Message::AddCredit { credit, receiver } => {
                    self.on_credit(credit, &receiver, outbound)?;
                }
                Message::ReturnReferences { count } => outbound.take_back(count)?,
                _ => {}
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

    fn on_message(&mut self, message: Message, outbound: &mut Outbound) -> Result<()> {
        self.moved |= !matches!(
            message,
            Message::AddCredit { .. } | Message::ReturnReferences { .. }
        );
        match message {
            Message::PartitionRequest(request) => self.on_request(request, outbound)?,
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
            Message::CancelPartitionRequest { receiver } => self.cancel(&receiver),
            Message::CloseRequest => self.release(),
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
                if let Err(error) = self.context.manager.publish_task_event(&partition, event)
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
            Message::ReturnReferences { count } => outbound.take_back(count)?,
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

    fn on_request(&mut self, request: PartitionRequest, outbound: &mut Outbound) -> Result<()> {
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
            compression: self.context.config.compression,
            view: None,
        };
        let number = self.free.pop().unwrap_or(self.readers.len() as u32);
        if number as usize == self.readers.len() {
            self.readers.push(None);
        }
        self.readers[number as usize] = Some(reader);
        self.numbers.insert(request.receiver, number);
        let deadline = Instant::now() + self.context.config.partition_request_timeout;
        let connection = self.connection;
        let listener = || Listener::Remote {
            connection,
            request: request.clone(),
        };
        if let Some(found) =
            self.context
                .manager
                .find_or_wait(&request.partition, deadline, listener)
        {
            self.attach(&request.receiver, found, outbound);
        }
        Ok(())
    }
}
