//! Entry points of bytes from outside, one function for each decoder.
//!
//! The fuzz targets call these, and so does `tests/corpus.rs` on the stable compiler.  Any input
//! may be refused; none may panic, hang, or be accepted as what it is not.

#![allow(dead_code, reason = "every fuzz target uses one of them")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hmac::{Hmac, Mac};
use penstock_memory::{Buffer, BufferFileReader, FileAccess, IoManager, UniqueBuffer};
use penstock_network::framing::{FramingLimits, RecordDeserializer};
use penstock_network::wire::{
    BUFFER_REFERENCE, BUFFER_RESPONSE, BufferReference, BufferResponse, FrameHeader, HEADER_BYTES,
    Message, decode_body, decompress, encode,
};
use penstock_network::{
    ChannelDescriptor, ChannelLocation, EnvironmentConfig, NetworkEnvironment, Next, event,
};
use sha2::Sha256;

const TOKEN: &[u8] = b"a token of the fuzz targets";
/// Stands for the receiver of a request in what `producer` sends.
const RECEIVER: [u8; 16] = [0xEE; 16];
/// A loopback peer that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Frames, one behind the other: what decodes encodes to the same bytes.
pub(crate) fn frames(mut input: &[u8]) {
    while let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() {
        let Ok(decoded) = FrameHeader::decode(header, event::MAX_EVENT_BYTES) else {
            return;
        };
        let Some(body) = rest.get(..decoded.body_bytes) else {
            return;
        };
        if decoded.id == BUFFER_RESPONSE {
            if let Some(fields) = body.first_chunk()
                && let Ok(response) = BufferResponse::decode(fields, decoded.body_bytes)
            {
                assert_eq!(response.encode()[HEADER_BYTES..], fields[..]);
            }
        } else if decoded.id == BUFFER_REFERENCE {
            if let Ok(reference) = BufferReference::decode(body) {
                assert_eq!(reference.encode()[HEADER_BYTES..], *body);
            }
        } else if let Ok(message) = decode_body(decoded.id, body) {
            let mut again = Vec::new();
            encode(&message, &mut again);
            // Long texts are cut when they are written; everything else is kept.
            if decoded.id != 1 {
                assert_eq!(again, [&header[..], body].concat());
            }
        }
        input = &rest[decoded.body_bytes..];
    }
}

/// Serialized events.
pub(crate) fn events(input: &[u8]) {
    if let Ok(id) = event::event_type(input) {
        assert_eq!(input[..4], id.to_be_bytes());
    }
}

/// A stream of records cut into buffers whose sizes the first byte chooses: whatever the cuts,
/// the same records come out, and what is not consumed can be replayed.
pub(crate) fn records(input: &[u8]) {
    let Some((&cut, stream)) = input.split_first() else {
        return;
    };
    let limits = FramingLimits {
        max_record_bytes: 1 << 20,
        spill_threshold_bytes: 100 << 10,
        ..FramingLimits::default()
    };
    let read = |buffer_bytes: usize| -> Result<Vec<Vec<u8>>, usize> {
        let mut found = Vec::new();
        let mut deserializer = RecordDeserializer::new(limits.clone());
        for buffer in stream.chunks(buffer_bytes.max(1)) {
            let range = deserializer.feed(buffer).map_err(|_| found.len())?;
            found.extend(deserializer.spanning().map(<[u8]>::to_vec));
            let mut whole = &buffer[range];
            while let Some((length, rest)) = whole.split_first_chunk::<4>() {
                let (record, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
                found.push(record.to_vec());
                whole = rest;
            }
            assert!(
                whole.is_empty(),
                "a region of whole records ends inside of one"
            );
        }
        let pending = deserializer.unconsumed().expect("readable");
        assert!(stream.ends_with(&pending));
        Ok(found)
    };
    let (fine, coarse) = (read(usize::from(cut)), read(usize::MAX));
    match (fine, coarse) {
        (Ok(fine), Ok(coarse)) => assert_eq!(fine, coarse),
        (Err(_), Err(_)) => {}
        (fine, coarse) => panic!("the cuts matter: {fine:?}, {coarse:?}"),
    }
}

/// Compressed payloads, into a segment of 32 KiB.
pub(crate) fn blocks(input: &[u8]) {
    let mut segment = vec![0; 32 << 10];
    if let Ok(count) = decompress(input, &mut segment) {
        assert!((1..=segment.len()).contains(&count));
    }
}

/// A live executor.  An even first byte: the rest comes in place of the handshake.  An odd one:
/// the handshake succeeds and the rest comes as frames.  The byte's second bit chooses the socket
/// beside the data port, for executors of the same host.  The executor closes the connection or
/// waits for more; it serves the next one either way.
pub(crate) fn connection(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    let address = environment().address();
    if kind & 2 == 0 {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        client(&stream, kind, bytes, || stream.shutdown(Shutdown::Write));
    } else {
        let name = format!("penstock-data/{}/{}", address.ip(), address.port());
        let name = SocketAddr::from_abstract_name(name).expect("a name");
        let stream = UnixStream::connect_addr(&name).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        client(&stream, kind, bytes, || stream.shutdown(Shutdown::Write));
    }
}

/// Messages that `connection` sends and expects.
fn client(
    mut stream: impl Read + Write,
    kind: u8,
    bytes: &[u8],
    end: impl FnOnce() -> io::Result<()>,
) {
    let mut nonce = [0; 32];
    stream.read_exact(&mut nonce).expect("the server's nonce");
    if kind % 2 == 1 {
        let answer = [[9; 32], proof(&nonce, b"client")].concat();
        stream.write_all(&answer).expect("answered");
        let mut theirs = [0; 32];
        stream.read_exact(&mut theirs).expect("the server's proof");
        assert_eq!(theirs, proof(&[9; 32], b"server"));
    }
    // It may be closed while this is written: as good an end as any.
    let sent = stream.write_all(bytes);
    if sent.is_ok() && end().is_ok() {
        let mut rest = [0; 4096];
        loop {
            match stream.read(&mut rest) {
                Ok(0) => break,
                Ok(count) => {
                    assert!(kind % 2 == 1, "{count} bytes for a stranger");
                }
                Err(error) => {
                    let hangs = error.kind() == std::io::ErrorKind::WouldBlock;
                    assert!(!hangs, "the connection is left open");
                    break;
                }
            }
        }
    }
}

/// A live reader, whose producer sends the input.  An even first byte: in place of the handshake.
/// An odd one: as frames behind its request, whose receiver stands in place of `RECEIVER`.  The
/// reader gets buffers, then an error, and every segment is back when it has closed its gate.
pub(crate) fn producer(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let channel = ChannelDescriptor {
        partition_id: [7; 60],
        subpartition: 0,
        location: ChannelLocation::Remote(listener.local_addr().expect("its address")),
    };
    let gate = environment().create_input_gate(&[channel]).expect("a gate");
    gate.request_partitions().expect("asked");
    let (mut stream, _) = listener.accept().expect("the reader's executor");
    // A reader that is dropped before the connection is open comes again, as long as it may.
    drop(listener);
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    let mut sent = bytes.to_vec();
    if kind % 2 == 1 {
        let mut answer = [0; 64];
        stream.write_all(&[4; 32]).expect("sent");
        stream.read_exact(&mut answer).expect("the reader's proof");
        assert_eq!(answer[32..], proof(&[4; 32], b"client"));
        let theirs = answer.first_chunk().expect("a nonce");
        stream.write_all(&proof(theirs, b"server")).expect("sent");
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header).expect("a request");
        let header = FrameHeader::decode(&header, 0).expect("a request");
        let mut body = vec![0; header.body_bytes];
        stream.read_exact(&mut body).expect("a request");
        let Ok(Message::PartitionRequest(request)) = decode_body(header.id, &body) else {
            panic!("a request of a partition");
        };
        for at in 0..sent.len().saturating_sub(RECEIVER.len() - 1) {
            if sent[at..].starts_with(&RECEIVER) {
                sent[at..at + RECEIVER.len()].copy_from_slice(&request.receiver);
            }
        }
    }
    // The reader may have closed it while this is written: as good an end as any.
    let _ = stream.write_all(&sent);
    drop(stream);
    loop {
        match gate.next_buffer(Some(PATIENCE)) {
            Ok(Next::Buffer(_)) => {}
            Ok(Next::Nothing | Next::Woken) => panic!("the reader hangs"),
            Ok(Next::End) | Err(_) => break,
        }
    }
    gate.close();
    let pool = environment();
    assert_eq!(pool.available_segments(), pool.total_segments());
}

/// A file of spilled buffers: what is read stands in the file, as far as it can be read.
pub(crate) fn files(input: &[u8]) {
    static MANAGER: OnceLock<IoManager> = OnceLock::new();
    let manager =
        MANAGER.get_or_init(|| IoManager::new(&[std::env::temp_dir()]).expect("a manager"));
    let channel = manager.create_channel();
    std::fs::write(channel.path(), input).expect("written");
    let reader = BufferFileReader::open(manager, channel, FileAccess::Synchronous).expect("open");
    let (sender, found) = channel_of_buffers();
    let mut again = Vec::new();
    loop {
        let sender = sender.clone();
        let callback = Box::new(move |buffer| sender.send(buffer).expect("awaited"));
        if reader
            .read_into(UniqueBuffer::unpooled(4096), callback)
            .is_err()
        {
            break;
        }
        let Ok(Some(buffer)) = found.recv() else {
            break;
        };
        again.extend((buffer.size() as u32).to_be_bytes());
        again.push(buffer.data_type().ordinal());
        again.extend(buffer.as_slice());
    }
    assert!(input.starts_with(&again));
    // The error of a file that cannot be read is told once more.
    let _ = reader.close_and_delete();
}

fn channel_of_buffers() -> (SyncSender<Option<Buffer>>, Receiver<Option<Buffer>>) {
    sync_channel(1)
}

fn proof(nonce: &[u8; 32], role: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(TOKEN).expect("a key of any length");
    mac.update(nonce);
    mac.update(role);
    mac.finalize().into_bytes().into()
}

fn environment() -> &'static NetworkEnvironment {
    static ENVIRONMENT: OnceLock<NetworkEnvironment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let config = EnvironmentConfig {
            num_segments: 16,
            partition_request_timeout: Duration::from_millis(1),
            ..EnvironmentConfig::new("fuzzed", TOKEN)
        };
        NetworkEnvironment::new(config).expect("an environment")
    })
}
