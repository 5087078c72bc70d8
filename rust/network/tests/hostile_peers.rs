//! Goal: a peer that sends garbage, a wrong token, an oversized frame or half a frame is dropped,
//! and everybody else goes on.
//! Method: raw sockets play the peer, on either side of the protocol, beside a healthy exchange.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use common::{
    Item, PATIENCE, Writer, assert_all_returned, channel, config, drain, environment, gate,
    partition, reader,
};
use hmac::{Hmac, Mac};
use penstock_network::wire::{BufferResponse, FrameHeader, Message, decode_body, encode};
use penstock_network::{Error, NetworkEnvironment, Next};
use sha2::Sha256;

const TOKEN: &[u8] = b"a token of the tests";

fn proof(token: &[u8], nonce: &[u8], role: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token).unwrap();
    mac.update(nonce);
    mac.update(role);
    mac.finalize().into_bytes().to_vec()
}

/// Connects and answers the challenge with `token`.
fn connect(environment: &NetworkEnvironment, token: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(environment.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut nonce = [0; 32];
    stream.read_exact(&mut nonce).unwrap();
    let answer = [[9; 32].to_vec(), proof(token, &nonce, b"client")].concat();
    stream.write_all(&answer).unwrap();
    stream
}

/// Connects with the right token and checks the server's proof.
fn authenticated(environment: &NetworkEnvironment) -> TcpStream {
    let mut stream = connect(environment, TOKEN);
    let mut theirs = [0; 32];
    stream.read_exact(&mut theirs).unwrap();
    assert_eq!(theirs[..], proof(TOKEN, &[9; 32], b"server"));
    stream
}

/// Waits until the other side has closed the connection, whatever it still says.
fn until_closed(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = stream.read(&mut buffer) {}
}

fn frame(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes);
    bytes
}

/// Exchanges a few records between two environments.
fn exchange(producer: &NetworkEnvironment, consumer: &NetworkEnvironment, number: u8) {
    let partition = partition(producer, number, 1, -1);
    let gate = gate(consumer, &[channel(number, 0, Some(producer.address()))]);
    let mut writer = Writer::new(&partition);
    writer.emit(0, b"healthy").unwrap();
    writer.finish().unwrap();
    let items = drain(&mut reader(consumer, &gate));
    assert_eq!(items[0], Item::Record(0, b"healthy".to_vec()));
    assert!(partition.wait_consumed(PATIENCE));
}

#[test]
fn hostile_clients_are_dropped_and_the_job_goes_on() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    exchange(&producer, &consumer, 1);

    // A wrong token: not even an answer.
    let mut stream = connect(&producer, b"another token");
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);

    // Garbage instead of an answer, frames before authentication.
    for bytes in [vec![0x55; 4096], frame(&Message::CloseRequest).repeat(8)] {
        let mut stream = TcpStream::connect(producer.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The other side may close while this is being written.
        let _ = stream.write_all(&bytes);
        until_closed(stream);
    }

    // Garbage, an oversized frame, a frame of a producer, a bad request after authentication.
    let oversized = [
        &(2_i32 << 20).to_be_bytes()[..],
        &0xBADC_0FFE_u32.to_be_bytes(),
        &[3],
    ]
    .concat();
    let backlog = frame(&Message::BacklogAnnouncement {
        backlog: 1,
        receiver: [0; 16],
    });
    let credit = frame(&Message::AddCredit {
        credit: -1,
        receiver: [0; 16],
    });
    for bytes in [vec![0xAA; 64], oversized, backlog, credit] {
        let mut stream = authenticated(&producer);
        stream.write_all(&bytes).unwrap();
        until_closed(stream);
    }

    // Half a frame, then gone.
    let mut stream = authenticated(&producer);
    stream
        .write_all(&frame(&Message::CloseRequest)[..5])
        .unwrap();
    stream.shutdown(Shutdown::Both).unwrap();

    exchange(&producer, &consumer, 2);
    drop(consumer);
    assert_all_returned(&[&producer]);
}

/// A server that answers the handshake and then behaves as `script` says.
fn producer_of(script: impl FnOnce(TcpStream, [u8; 16]) + Send + 'static) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let accepting = listener.try_clone().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = accepting.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[4; 32]).unwrap();
        let mut answer = [0; 64];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[32..], proof(TOKEN, &[4; 32], b"client"));
        stream
            .write_all(&proof(TOKEN, &answer[..32], b"server"))
            .unwrap();
        let mut header = [0; 9];
        stream.read_exact(&mut header).unwrap();
        let header = FrameHeader::decode(&header, 0).unwrap();
        let mut body = vec![0; header.body_bytes];
        stream.read_exact(&mut body).unwrap();
        let Message::PartitionRequest(request) = decode_body(header.id, &body).unwrap() else {
            panic!("a partition request");
        };
        script(stream, request.receiver);
    });
    listener
}

fn response(receiver: [u8; 16], sequence_number: i32, size: u32) -> [u8; 43] {
    BufferResponse {
        receiver,
        subpartition: 0,
        sequence_number,
        backlog: 0,
        data_type: 1,
        compressed: false,
        size,
    }
    .encode()
}

/// Reads from a scripted producer until the gate fails and returns the error.
fn error_from(script: impl FnOnce(TcpStream, [u8; 16]) + Send + 'static) -> Error {
    let consumer = environment("consumer");
    let listener = producer_of(script);
    let gate = gate(
        &consumer,
        &[channel(1, 0, Some(listener.local_addr().unwrap()))],
    );
    let error = loop {
        match gate.next_buffer(Some(PATIENCE)) {
            Ok(Next::Buffer(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    gate.close();
    assert_all_returned(&[&consumer]);
    error
}

/// C-11: a producer killed in the middle of a frame leaves no buffer behind.
#[test]
fn a_producer_killed_mid_frame_is_a_lost_connection() {
    let error = error_from(|mut stream, receiver| {
        stream.write_all(&response(receiver, 0, 1000)).unwrap();
        stream.write_all(&[1; 400]).unwrap();
    });
    assert!(matches!(&error, Error::PartitionConnection(text) if text.contains("127.0.0.1")));
}

/// C5: reordering, more data than credit and nonsense are corrupt streams.
#[test]
fn producers_that_break_the_protocol_are_corrupt_streams() {
    let reordered = error_from(|mut stream, receiver| {
        stream.write_all(&response(receiver, 1, 4)).unwrap();
        stream.write_all(&[0; 4]).unwrap();
        until_closed(stream);
    });
    assert!(matches!(&reordered, Error::CorruptStream(text) if text.contains("expected")));

    let without_credit = error_from(|mut stream, receiver| {
        // Two exclusive buffers are there; the reader may return them in time or not, but a
        // payload that never ends cannot be returned.
        for sequence_number in 0..2 {
            stream
                .write_all(&response(receiver, sequence_number, 4))
                .unwrap();
            stream.write_all(&[0; 4]).unwrap();
        }
        stream.write_all(&response(receiver, 2, 40_000)).unwrap();
        until_closed(stream);
    });
    assert!(
        matches!(&without_credit, Error::CorruptStream(_)),
        "{without_credit:?}"
    );

    let garbage = error_from(|mut stream, _| {
        stream.write_all(&[0x11; 64]).unwrap();
        until_closed(stream);
    });
    assert!(matches!(&garbage, Error::CorruptStream(text) if text.contains("magic")));
}

/// A server that does not hold the token is not believed.
#[test]
fn an_impostor_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let impostor = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[4; 32]).unwrap();
        stream.read_exact(&mut [0; 64]).unwrap();
        stream.write_all(&[0; 32]).unwrap();
        until_closed(stream);
    });
    let consumer = environment("consumer");
    let gate = gate(&consumer, &[channel(1, 0, Some(address))]);
    let error = gate.next_buffer(Some(PATIENCE)).unwrap_err();
    assert!(matches!(error, Error::Authentication(_)), "{error:?}");
    impostor.join().unwrap();
}

/// C6: a refused connection names the peer, and the failure is not remembered.
#[test]
fn a_refused_connection_names_the_peer() {
    let consumer = environment("consumer");
    // A port that was just given back: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for _ in 0..2 {
        let gate = gate(&consumer, &[channel(1, 0, Some(address))]);
        let error = gate.next_buffer(Some(PATIENCE)).unwrap_err();
        assert!(
            matches!(&error, Error::PartitionConnection(text) if text.contains(&address.to_string())),
            "{error:?}"
        );
    }
}

/// Closing an environment ends its peers' channels with a lost connection and returns all buffers.
#[test]
fn closing_an_environment_is_a_lost_connection_for_its_readers() {
    let producer = environment("producer");
    let consumer = Arc::new(NetworkEnvironment::new(config("consumer")).unwrap());
    let partition = partition(&producer, 1, 1, -1);
    let gate = gate(&consumer, &[channel(1, 0, Some(producer.address()))]);
    let mut writer = Writer::new(&partition);
    writer.emit(0, b"first").unwrap();
    partition.flush_all();
    assert!(matches!(
        gate.next_buffer(Some(PATIENCE)),
        Ok(Next::Buffer(_))
    ));
    producer.close();
    let error = gate.next_buffer(Some(PATIENCE)).unwrap_err();
    assert!(matches!(error, Error::PartitionConnection(_)), "{error:?}");
    assert!(matches!(writer.emit(0, b"more"), Err(Error::CancelTask(_))));
    gate.close();
    assert_all_returned(&[&consumer]);
    consumer.close();
}
