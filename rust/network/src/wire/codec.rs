//! Encoding and decoding of the control messages.

use super::{ErrorBody, HEADER_BYTES, MAGIC, Message, PartitionId, PartitionRequest, ReceiverId};
use crate::error::{Error, Result};

/// Longest accepted text of an error body, in bytes.
const MAX_TEXT_BYTES: usize = 128 << 10;
/// Length to which texts are cut when written, in bytes.
const MAX_WRITTEN_TEXT_BYTES: usize = 16 << 10;

/// Appends `message` to `out` as one frame.
pub fn encode(message: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&MAGIC.to_be_bytes());
    out.push(0);
    let id = encode_body(message, out);
    out[start + 8] = id;
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    debug_assert!(length as usize >= HEADER_BYTES);
}

fn encode_body(message: &Message, out: &mut Vec<u8>) -> u8 {
    match message {
        Message::ErrorResponse { error, receiver } => {
            encode_error(error, out);
            out.push(u8::from(receiver.is_some()));
            if let Some(receiver) = receiver {
                out.extend_from_slice(receiver);
            }
            1
        }
        Message::PartitionRequest(request) => {
            out.extend_from_slice(&request.partition[..]);
            out.extend_from_slice(&request.index_start.to_be_bytes());
            out.extend_from_slice(&request.index_end.to_be_bytes());
            out.extend_from_slice(&request.receiver);
            out.extend_from_slice(&request.initial_credit.to_be_bytes());
            2
        }
        Message::TaskEventRequest {
            event,
            partition,
            receiver,
        } => {
            out.extend_from_slice(&(event.len() as u32).to_be_bytes());
            out.extend_from_slice(event);
            out.extend_from_slice(&partition[..]);
            out.extend_from_slice(receiver);
            3
        }
        Message::CancelPartitionRequest { receiver } => {
            out.extend_from_slice(receiver);
            4
        }
        Message::CloseRequest => 5,
        Message::AddCredit { credit, receiver } => {
            put_int_and_receiver(out, *credit, receiver);
            6
        }
        Message::ResumeConsumption { receiver } => {
            out.extend_from_slice(receiver);
            7
        }
        Message::AckAllUserRecordsProcessed { receiver } => {
            out.extend_from_slice(receiver);
            8
        }
        Message::BacklogAnnouncement { backlog, receiver } => {
            put_int_and_receiver(out, *backlog, receiver);
            9
        }
        Message::NewBufferSize { size, receiver } => {
            put_int_and_receiver(out, *size, receiver);
            10
        }
        Message::SegmentId {
            subpartition,
            segment,
            receiver,
        } => {
            out.extend_from_slice(&subpartition.to_be_bytes());
            put_int_and_receiver(out, *segment, receiver);
            11
        }
        Message::UseSharedMemory => 12,
        Message::ReturnReferences { count } => {
            out.extend_from_slice(&count.to_be_bytes());
            14
        }
    }
}

fn put_int_and_receiver(out: &mut Vec<u8>, value: i32, receiver: &ReceiverId) {
    out.extend_from_slice(&value.to_be_bytes());
    out.extend_from_slice(receiver);
}

fn encode_error(body: &ErrorBody, out: &mut Vec<u8>) {
    let text = &body.message;
    let mut end = text.len().min(MAX_WRITTEN_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&body.code.to_be_bytes());
    out.extend_from_slice(&(end as u32).to_be_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// Decodes the body of a control frame with message id `id`.
///
/// # Errors
/// `CorruptStream` if the body is short, long, out of limits or the id is not a control message.
pub fn decode_body(id: u8, body: &[u8]) -> Result<Message> {
    let mut input = Input { rest: body, id };
    let message = match id {
        1 => {
            let error = input.error()?;
            let receiver = if input.flag()? {
                Some(input.receiver()?)
            } else {
                None
            };
            Message::ErrorResponse { error, receiver }
        }
        2 => Message::PartitionRequest(PartitionRequest {
            partition: input.partition()?,
            index_start: input.int()?,
            index_end: input.int()?,
            receiver: input.receiver()?,
            initial_credit: input.int()?,
        }),
        3 => Message::TaskEventRequest {
            event: input.sized(super::MAX_CONTROL_FRAME_BYTES)?.to_vec(),
            partition: input.partition()?,
            receiver: input.receiver()?,
        },
        4 => Message::CancelPartitionRequest {
            receiver: input.receiver()?,
        },
        5 => Message::CloseRequest,
        6 => Message::AddCredit {
            credit: input.int()?,
            receiver: input.receiver()?,
        },
        7 => Message::ResumeConsumption {
            receiver: input.receiver()?,
        },
        8 => Message::AckAllUserRecordsProcessed {
            receiver: input.receiver()?,
        },
        9 => Message::BacklogAnnouncement {
            backlog: input.int()?,
            receiver: input.receiver()?,
        },
        10 => Message::NewBufferSize {
            size: input.int()?,
            receiver: input.receiver()?,
        },
        11 => Message::SegmentId {
            subpartition: input.int()?,
            segment: input.int()?,
            receiver: input.receiver()?,
        },
        12 => Message::UseSharedMemory,
        14 => Message::ReturnReferences {
            count: input.int()?,
        },
        _ => {
            return Err(Error::CorruptStream(format!(
                "message id {id} is not a control message"
            )));
        }
    };
    if input.rest.is_empty() {
        Ok(message)
    } else {
        Err(Error::CorruptStream(format!(
            "{} bytes left over after message {id}",
            input.rest.len()
        )))
    }
}

/// A cursor over a body that never reads past its end.
struct Input<'a> {
    rest: &'a [u8],
    id: u8,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(Error::CorruptStream(format!(
                "message {} ends {} bytes early",
                self.id,
                count - self.rest.len()
            )));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn int(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn flag(&mut self) -> Result<bool> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Error::CorruptStream(format!(
                "flag {other} in message {}",
                self.id
            ))),
        }
    }

    fn receiver(&mut self) -> Result<ReceiverId> {
        self.array()
    }

    fn partition(&mut self) -> Result<Box<PartitionId>> {
        self.array().map(Box::new)
    }

    fn sized(&mut self, limit: usize) -> Result<&'a [u8]> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) if length <= limit => self.take(length),
            _ => Err(Error::CorruptStream(format!(
                "length {length} in message {} outside 0..={limit}",
                self.id
            ))),
        }
    }

    fn text(&mut self) -> Result<String> {
        // A text that was cut inside a character is still worth reading.
        Ok(String::from_utf8_lossy(self.sized(MAX_TEXT_BYTES)?).into_owned())
    }

    fn error(&mut self) -> Result<ErrorBody> {
        Ok(ErrorBody {
            code: self.array().map(u16::from_be_bytes)?,
            message: self.text()?,
        })
    }
}
