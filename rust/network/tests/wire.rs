//! Goal: the wire protocol is what its table says, byte for byte, and decoding trusts nothing.
//! Method: golden frames, round trips of every message, random bytes.

use proptest::prelude::*;

use penstock_network::wire::{
    BUFFER_REFERENCE_BYTES, BUFFER_RESPONSE_BYTES, BufferReference, BufferResponse, ErrorBody,
    FrameHeader, HEADER_BYTES, Message, PartitionRequest, decode_body, encode,
};
use penstock_network::{Error, ErrorCode};

fn frame(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes);
    bytes
}

fn decode(frame: &[u8]) -> Result<Message, Error> {
    let header = FrameHeader::decode(frame.first_chunk().expect("a header"), 0)?;
    assert_eq!(header.body_bytes, frame.len() - HEADER_BYTES);
    decode_body(header.id, &frame[HEADER_BYTES..])
}

/// The golden vectors of internals M73.
#[test]
fn golden_frames() {
    let receiver = [0xAB; 16];
    let credit = frame(&Message::AddCredit {
        credit: 3,
        receiver,
    });
    assert_eq!(credit.len(), 29);
    assert_eq!(
        credit[..13],
        [0, 0, 0, 0x1D, 0xBA, 0xDC, 0x0F, 0xFE, 6, 0, 0, 0, 3]
    );
    assert_eq!(credit[13..], receiver);
    assert_eq!(
        frame(&Message::CancelPartitionRequest { receiver }).len(),
        25
    );
    assert_eq!(
        frame(&Message::CloseRequest),
        [0, 0, 0, 9, 0xBA, 0xDC, 0x0F, 0xFE, 5]
    );
    let request = Message::PartitionRequest(PartitionRequest {
        partition: Box::new([1; 60]),
        index_start: 2,
        index_end: 2,
        receiver,
        initial_credit: 4,
    });
    assert_eq!(frame(&request).len(), 9 + 60 + 4 + 4 + 16 + 4);
}

#[test]
fn buffer_responses_have_a_header_of_43_bytes() {
    let response = BufferResponse {
        receiver: [9; 16],
        subpartition: 1,
        sequence_number: 2,
        backlog: 3,
        data_type: 1,
        compressed: false,
        size: 5,
    };
    let bytes = response.encode();
    assert_eq!(bytes.len(), 43);
    assert_eq!(bytes[..9], [0, 0, 0, 48, 0xBA, 0xDC, 0x0F, 0xFE, 0]);
    assert_eq!(
        bytes[25..],
        [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 0, 0, 0, 0, 5]
    );
    let header = FrameHeader::decode(bytes.first_chunk().unwrap(), 5).unwrap();
    let fields = bytes
        .last_chunk::<{ BUFFER_RESPONSE_BYTES - HEADER_BYTES }>()
        .unwrap();
    assert_eq!(
        BufferResponse::decode(fields, header.body_bytes),
        Ok(response)
    );
    // One byte more than the limit, and a size that disagrees with the frame.
    assert!(FrameHeader::decode(bytes.first_chunk().unwrap(), 4).is_err());
    assert!(BufferResponse::decode(fields, header.body_bytes + 1).is_err());
}

#[test]
fn references_have_51_bytes() {
    let response = BufferResponse {
        receiver: [9; 16],
        subpartition: 1,
        sequence_number: 2,
        backlog: 3,
        data_type: 1,
        compressed: false,
        size: 5,
    };
    let offset = 0x0102_0304_0506_0708;
    let reference = BufferReference { response, offset };
    let bytes = reference.encode();
    assert_eq!(bytes.len(), 51);
    assert_eq!(bytes[..9], [0, 0, 0, 51, 0xBA, 0xDC, 0x0F, 0xFE, 13]);
    assert_eq!(bytes[9..43], response.encode()[9..]);
    assert_eq!(bytes[43..], [1, 2, 3, 4, 5, 6, 7, 8]);
    let header = FrameHeader::decode(bytes.first_chunk().unwrap(), 0).unwrap();
    assert_eq!(header.body_bytes, BUFFER_REFERENCE_BYTES - HEADER_BYTES);
    let body = &bytes[HEADER_BYTES..];
    assert_eq!(BufferReference::decode(body), Ok(reference));
    assert!(BufferReference::decode(&body[..41]).is_err());
    assert!(BufferReference::decode(&[body, &[0]].concat()).is_err());
    assert!(BufferReference::decode(&[]).is_err());
    for (compressed, size) in [(true, 5), (false, 0), (false, 1 << 31)] {
        let response = BufferResponse {
            compressed,
            size,
            ..response
        };
        let wrong = BufferReference { response, offset }.encode();
        assert!(BufferReference::decode(&wrong[HEADER_BYTES..]).is_err());
    }
    // A reference is not a control message, and has one length.
    assert!(decode_body(13, body).is_err());
    let mut longer = *bytes.first_chunk().unwrap();
    longer[3] += 1;
    assert!(FrameHeader::decode(&longer, 100).is_err());
}

#[test]
fn every_message_survives_the_round_trip() {
    let receiver = [7; 16];
    let error = ErrorBody {
        code: ErrorCode::ProducerFailed.number(),
        message: "größer".into(),
    };
    let messages = [
        Message::ErrorResponse {
            error: error.clone(),
            receiver: Some(receiver),
        },
        Message::ErrorResponse {
            error,
            receiver: None,
        },
        Message::PartitionRequest(PartitionRequest {
            partition: Box::new([3; 60]),
            index_start: 0,
            index_end: 5,
            receiver,
            initial_credit: 2,
        }),
        Message::TaskEventRequest {
            event: vec![1, 2, 3],
            partition: Box::new([4; 60]),
            receiver,
        },
        Message::CancelPartitionRequest { receiver },
        Message::CloseRequest,
        Message::AddCredit {
            credit: i32::MAX,
            receiver,
        },
        Message::ResumeConsumption { receiver },
        Message::AckAllUserRecordsProcessed { receiver },
        Message::BacklogAnnouncement {
            backlog: 6,
            receiver,
        },
        Message::NewBufferSize {
            size: 256,
            receiver,
        },
        Message::SegmentId {
            subpartition: 1,
            segment: 2,
            receiver,
        },
        Message::UseSharedMemory,
        Message::ReturnReferences { count: 4 },
    ];
    for message in messages {
        let bytes = frame(&message);
        assert_eq!(decode(&bytes), Ok(message));
        // Neither a byte less nor a byte more is accepted.
        let body = &bytes[HEADER_BYTES..];
        if !body.is_empty() {
            assert!(decode_body(bytes[8], &body[..body.len() - 1]).is_err());
        }
        assert!(decode_body(bytes[8], &[body, &[0]].concat()).is_err());
    }
}

/// The numbers that peers and Python know; `penstock/network/error_codes.py` has the same.
#[test]
fn errors_travel_as_numbers() {
    type Make = fn(String) -> Error;
    let kinds: [(u16, Make); 9] = [
        (1, Error::InsufficientBuffers),
        (2, Error::CancelTask),
        (3, Error::PartitionConnection),
        (4, Error::PartitionNotFound),
        (5, Error::ProducerFailed),
        (6, Error::CorruptStream),
        (7, Error::Authentication),
        (8, Error::IllegalState),
        (9, Error::Io),
    ];
    for (number, make) in kinds {
        let code = make(String::new()).code();
        assert_eq!(code.number(), number);
        assert_eq!(ErrorCode::from_number(number), Some(code));
    }
    assert_eq!(ErrorCode::from_number(0), None);
    assert_eq!(ErrorCode::from_number(10), None);
    let bytes = frame(&Message::ErrorResponse {
        error: ErrorBody {
            code: 5,
            message: "boom".into(),
        },
        receiver: None,
    });
    assert_eq!(bytes[HEADER_BYTES..], *b"\0\x05\0\0\0\x04boom\0");
}

/// A long error is cut so that the frame stays within its limit.
#[test]
fn long_errors_are_cut() {
    let error = ErrorBody {
        code: 1,
        message: "ö".repeat(1 << 20),
    };
    let bytes = frame(&Message::ErrorResponse {
        error,
        receiver: None,
    });
    let Ok(Message::ErrorResponse { error, .. }) = decode(&bytes) else {
        panic!("decodable")
    };
    assert_eq!(error.message, "ö".repeat(8 << 10));
}

#[test]
fn wrong_headers_are_refused() {
    let good = frame(&Message::CloseRequest);
    for (at, value) in [(4, 0), (8, 15), (0, 0x80), (0, 0x7F), (3, 8)] {
        let mut bad = good.clone();
        bad[at] = value;
        let header = FrameHeader::decode(bad.first_chunk().unwrap(), 100);
        assert!(
            matches!(header, Err(Error::CorruptStream(_))),
            "byte {at} = {value}"
        );
    }
}

proptest! {
    /// Random bodies are refused or decoded, and what decodes encodes to the same bytes.
    #[test]
    fn random_bodies_do_no_harm(id in 0_u8..17, body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = decode_body(id, &body)
            && !matches!(message, Message::ErrorResponse { .. })
        {
            prop_assert_eq!(&frame(&message)[HEADER_BYTES..], &body[..]);
        }
    }

    /// A reference that decodes encodes to the same bytes.
    #[test]
    fn random_references_do_no_harm(body in prop::collection::vec(any::<u8>(), 38..46)) {
        // Half of them with types and flags that are known.
        let mut body = body;
        if body[0] % 2 == 0 {
            body[28] %= 12;
            body[29] = 0;
        }
        if let Ok(reference) = BufferReference::decode(&body) {
            prop_assert_eq!(&reference.encode()[HEADER_BYTES..], &body[..]);
        }
    }
}
