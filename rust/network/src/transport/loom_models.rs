//! Models of the ways past the I/O thread: sending by whoever has news, announcing credit by
//! whoever has it, receiving by whoever waits.  The rules that they hold (W-1, …) are those of
//! `docs/waiting.md`.
//!
//! Connections are real, over pairs of Unix sockets; threads sleep in loom instead of the kernel,
//! and `arrive` tells of arrivals as the kernel does.  Time passes in `ticks` only.

mod ticks;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use loom::thread;
use penstock_memory::{Buffer, BufferConsumer, DataType};

use super::connection::{Connection, Phase};
use super::io_thread::Context;
use super::lookout::{Event, Step};
use super::news::News;
use super::same_host_stream::SameHostStream;
use super::socket::{Peer, Socket};
use super::socket_set::SocketSet;
use super::{Command, Link, Transport, Waiting};
use crate::environment::{EnvironmentConfig, EnvironmentCore};
use crate::event::END_OF_PARTITION_BYTES;
use crate::gate::{InputChannel, Next, RemoteInputChannel, SingleInputGate, Wait};
use crate::loom_models::{
    end_of, expect_woken_and_cancelled, finished, partition, pool, receive_two, remote_channel_of,
};
use crate::partition::{PartitionShared, Released, Subpartition, Wakeups};
use crate::sync::{Arc, Mutex, Weak};
use crate::wire::{
    BUFFER_RESPONSE_BYTES, BufferResponse, Message, PartitionRequest, ReceiverId, encode,
};

const TOKEN: usize = 7;
/// Of the one channel, as `remote_channel_of` makes it.
const RECEIVER: [u8; 16] = [1; 16];
/// A message that announces credit, in bytes.
const CREDIT_BYTES: usize = 29;

/// Returns a connected pair: the near end as a connection wants it.
fn sockets() -> (Socket, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let near = mio::net::UnixStream::from_std(near);
    (Socket::SameHost(SameHostStream::accepted(near)), far)
}

fn opened(mut connection: Connection) -> Connection {
    connection.outbound = super::outbound::Outbound::default();
    connection.writable = true;
    connection.open();
    connection
}

/// Returns the consuming end of a connection with one channel.
fn client(channel: &Arc<RemoteInputChannel>) -> (Arc<Mutex<Connection>>, UnixStream) {
    let (near, far) = sockets();
    let connection = Connection::connecting(TOKEN, near, Peer::SameHost, Instant::now());
    let mut connection = opened(connection);
    if let super::connection::Side::Client(channels) = &mut connection.side {
        channels.insert(Arc::clone(channel));
    }
    let shared = Arc::new(Mutex::new(connection));
    channel.link(Link::new(&shared));
    (shared, far)
}

/// Returns the surroundings of connections.
fn context(transport: &Arc<Transport>) -> Arc<Context> {
    Arc::new(Context {
        transport: Arc::clone(transport),
        manager: Arc::default(),
        config: Arc::new(EnvironmentConfig::new("model", b"")),
        tls: None,
        memory: None,
    })
}

/// The producing end of a connection with a reader of each of `partition`'s, which have some credit.
fn server(
    transport: &Arc<Transport>,
    partition: &Arc<PartitionShared>,
    initial_credit: i32,
) -> (Arc<Mutex<Connection>>, UnixStream, Arc<Context>) {
    let (near, mut far) = sockets();
    let context = context(transport);
    context.manager.register(Arc::clone(partition)).unwrap();
    let shared = Arc::new_cyclic(|shared| {
        let news = News::new(Arc::clone(transport), TOKEN, Weak::clone(shared));
        let nonce = [0; super::auth::NONCE_BYTES];
        let peer = Peer::SameHost;
        let now = Instant::now();
        let accepted = Connection::accepted(TOKEN, near, peer, now, nonce, &context, news);
        Mutex::new(opened(accepted))
    });
    for (index, _) in (0..).zip(&partition.subpartitions) {
        let request = Message::PartitionRequest(PartitionRequest {
            partition: Box::new(partition.id),
            index_start: index,
            index_end: index,
            receiver: [RECEIVER[0] + index as u8; 16],
            initial_credit,
        });
        far.write_all(&encoded(&request)).unwrap();
    }
    turn(&shared, &context);
    (shared, far, context)
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes);
    bytes
}

/// Runs the I/O thread's turn for a connection.
fn turn(shared: &Mutex<Connection>, context: &Context) {
    let mut connection = shared.lock();
    connection.lookout.on_polled(true, true);
    connection.receive(context).unwrap();
    connection.transmit().unwrap();
}

/// Returns the number of bytes that have come out at the far end.
fn count(far: &mut UnixStream) -> usize {
    let mut bytes = [0; 1024];
    far.read(&mut bytes).unwrap_or(0)
}

/// Sends to the near end, and tells the first set in which somebody sleeps.
fn arrive(far: &mut UnixStream, bytes: &[u8], sets: &[&SocketSet]) {
    far.write_all(bytes).unwrap();
    let _told = sets.iter().any(|set| set.poke());
}

/// Adds a buffer and makes it visible.
fn flushed(partition: &PartitionShared, bytes: &[u8]) {
    partition.subpartitions[0].add(finished(bytes));
    if let Subpartition::Pipelined(pipelined) = &partition.subpartitions[0] {
        pipelined.flush();
    }
}

/// Has the I/O thread hear of arrivals by `set`.
fn look_out_by(set: &Arc<SocketSet>, connection: &mut Connection) {
    connection.lookout.report_by(set);
    let step = connection.lookout.on(Event::ReadToEnd { wanted: true });
    assert_eq!(step, Step::EnterSet);
    connection.enter_set().unwrap();
}

/// Returns a frame of a producer that has nothing more to send.
fn frame(sequence_number: i32, data_type: DataType, payload: &[u8]) -> Vec<u8> {
    frame_for(RECEIVER, sequence_number, data_type, payload)
}

fn frame_for(
    receiver: ReceiverId,
    sequence_number: i32,
    data_type: DataType,
    payload: &[u8],
) -> Vec<u8> {
    let response = BufferResponse {
        receiver,
        subpartition: 0,
        sequence_number,
        backlog: 0,
        data_type: data_type.ordinal(),
        compressed: false,
        size: payload.len() as u32,
    };
    [&response.encode(), payload].concat()
}

/// Serves the commands of other threads until `Close`.
fn serve(transport: &Transport, mut act: impl FnMut(Command)) {
    loop {
        for command in transport.wait_for_commands() {
            match command {
                Command::Close => return,
                command => act(command),
            }
        }
    }
}

/// W-1, C-3: news reach the kernel, by the thread that has them or by the I/O thread, however both
/// meet at the connection.
#[test]
fn news_are_sent() {
    loom::model(|| {
        let transport = Transport::detached();
        let partition = partition(1, 1);
        let (shared, mut far, context) = server(&transport, &partition, 2);
        let io = {
            let (transport, shared) = (Arc::clone(&transport), Arc::clone(&shared));
            thread::spawn(move || {
                turn(&shared, &context);
                serve(&transport, |_| turn(&shared, &context));
            })
        };
        flushed(&partition, &[1]);
        end_of(&partition);
        transport.post(Command::Close);
        io.join().unwrap();
        let frames = 2 * BUFFER_RESPONSE_BYTES + 1 + END_OF_PARTITION_BYTES.len();
        assert_eq!(count(&mut far), frames);
    });
}

/// W-1, C-3: news that are left at the end of a batch reach the kernel, also when the I/O thread has
/// looked after the first of them meanwhile.
#[test]
fn news_of_a_batch_are_sent() {
    loom::model(|| {
        let transport = Transport::detached();
        let partition = partition(1, 2);
        let (shared, mut far, context) = server(&transport, &partition, 1);
        let io = {
            let (transport, shared) = (Arc::clone(&transport), Arc::clone(&shared));
            thread::spawn(move || {
                turn(&shared, &context);
                serve(&transport, |_| turn(&shared, &context));
            })
        };
        let event =
            BufferConsumer::finished(Buffer::from_bytes([1], DataType::PrioritizedEventBuffer));
        let mut wakeups = Wakeups::default();
        for subpartition in &partition.subpartitions {
            subpartition.add_later(event.copy(), &mut wakeups);
        }
        wakeups.ring();
        transport.post(Command::Close);
        io.join().unwrap();
        assert_eq!(count(&mut far), 2 * (BUFFER_RESPONSE_BYTES + 1));
    });
}

/// W-1, C-7: credit is announced, by the thread that has it or by the I/O thread.
#[test]
fn credit_is_announced_past_the_io_thread() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let (channel, _global, _floating) = remote_channel_of(&environment, Weak::new());
        let (shared, mut far) = client(&channel);
        receive_two(&channel);
        let transport = environment.transport_handle();
        let io = {
            let (transport, shared) = (Arc::clone(transport), Arc::clone(&shared));
            thread::spawn(move || {
                serve(&transport, |command| {
                    let mut connection = shared.lock();
                    if let Command::AnnounceCredit(channel) = command {
                        connection.send_credits(&channel);
                    }
                    connection.transmit().unwrap();
                });
            })
        };
        while let Some(next) = channel.poll().unwrap() {
            drop(next.buffer);
        }
        transport.post(Command::Close);
        io.join().unwrap();
        let messages = count(&mut far);
        assert!(messages > 0 && messages % CREDIT_BYTES == 0);
        assert_eq!(channel.take_credits(), 0);
    });
}

/// Returns a gate with one channel, at whose connection its reader waits before `backstop`.
fn gate_at_socket(
    environment: &Arc<EnvironmentCore>,
    backstop: &SocketSet,
) -> (Arc<SingleInputGate>, Arc<Mutex<Connection>>, UnixStream) {
    let mut channel = None;
    let gate = Arc::new_cyclic(|gate: &Weak<SingleInputGate>| {
        let (remote, _, _) = remote_channel_of(environment, Weak::clone(gate));
        channel = Some(Arc::clone(&remote));
        let waiting = Waiting::remote(environment.transport_handle()).unwrap();
        let channels = vec![InputChannel::Remote(remote)];
        SingleInputGate::new(channels, pool(), Arc::clone(environment), waiting)
    });
    let (shared, far) = client(&channel.unwrap());
    {
        let connection = shared.lock();
        gate.waiting().attend(&shared, &connection).unwrap();
        backstop.add(&connection.socket, TOKEN).unwrap();
    }
    (gate, shared, far)
}

/// Returns the I/O thread, which sleeps at a set until a socket has something or it is done.
fn io_thread(
    set: &Arc<SocketSet>,
    done: &Arc<Mutex<bool>>,
    shared: Arc<Mutex<Connection>>,
    context: Arc<Context>,
) -> thread::JoinHandle<()> {
    let (set, done) = (Arc::clone(set), Arc::clone(done));
    thread::spawn(move || {
        while !*done.lock() {
            let mut ready = Vec::new();
            set.wait(&mut ready, None);
            if !ready.is_empty() {
                turn(&shared, &context);
            }
        }
    })
}

/// W-2, W-3, W-5: what arrives is read by the reader that waits, or by the I/O thread, which is
/// told of it when the reader does not wait; the reader is never left asleep over it.
#[test]
fn arrivals_find_the_reader() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let backstop = Arc::new(SocketSet::new().unwrap());
        let (gate, shared, mut far) = gate_at_socket(&environment, &backstop);
        let done = Arc::new(Mutex::new(false));
        let context = context(environment.transport_handle());
        let io = io_thread(&backstop, &done, shared, context);
        let peer = {
            let (gate, backstop) = (Arc::clone(&gate), Arc::clone(&backstop));
            thread::spawn(move || {
                let waiting = gate.waiting();
                let sets = [waiting.set(), &*backstop];
                arrive(&mut far, &frame(0, DataType::DataBuffer, &[1]), &sets);
                let end = frame(1, DataType::EndOfPartition, &END_OF_PARTITION_BYTES);
                arrive(&mut far, &end, &sets);
                far
            })
        };
        let mut bytes = Vec::new();
        while let Next::Buffer(next) = gate.poll(Wait::Forever).unwrap() {
            if next.buffer.data_type().is_buffer() {
                bytes.extend_from_slice(&next.buffer);
            }
        }
        assert_eq!(bytes, [1]);
        *done.lock() = true;
        backstop.ring();
        io.join().unwrap();
        drop(peer.join().unwrap());
        gate.close();
    });
}

/// W-8, W-5: of two threads that wait at a gate one receives for both; whoever has what it came for
/// leaves, and the other is not left asleep over what comes then.
#[test]
fn one_receives_for_all_who_wait() {
    fn one_byte(gate: &SingleInputGate) -> u8 {
        match gate.poll(Wait::Forever).unwrap() {
            Next::Buffer(next) => next.buffer[0],
            _ => panic!("a buffer was sent for each"),
        }
    }
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let backstop = Arc::new(SocketSet::new().unwrap());
        let (gate, shared, mut far) = gate_at_socket(&environment, &backstop);
        let done = Arc::new(Mutex::new(false));
        let context = context(environment.transport_handle());
        let io = io_thread(&backstop, &done, shared, context);
        let readers = [(); 2].map(|()| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || one_byte(&gate))
        });
        let waiting = gate.waiting();
        for number in 0..2 {
            let sets = [waiting.set(), &*backstop];
            let data = frame(number, DataType::DataBuffer, &[number as u8]);
            arrive(&mut far, &data, &sets);
        }
        let mut bytes = readers.map(|reader| reader.join().unwrap());
        bytes.sort_unstable();
        assert_eq!(bytes, [0, 1]);
        *done.lock() = true;
        backstop.ring();
        io.join().unwrap();
        gate.close();
    });
}

/// W-4, C-7: credit held back because the producer has enough is announced before the reader
/// sleeps.
#[test]
fn credit_that_was_put_off_is_announced() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let backstop = Arc::new(SocketSet::new().unwrap());
        let (gate, _shared, mut far) = gate_at_socket(&environment, &backstop);
        let peer = {
            let (gate, backstop) = (Arc::clone(&gate), Arc::clone(&backstop));
            thread::spawn(move || {
                let waiting = gate.waiting();
                let sets = [waiting.set(), &*backstop];
                arrive(&mut far, &frame(0, DataType::DataBuffer, &[1]), &sets);
                while count(&mut far) == 0 {
                    thread::yield_now();
                }
                let end = frame(1, DataType::EndOfPartition, &END_OF_PARTITION_BYTES);
                arrive(&mut far, &end, &sets);
                far
            })
        };
        while let Next::Buffer(next) = gate.poll(Wait::Forever).unwrap() {
            drop(next.buffer);
        }
        drop(peer.join().unwrap());
        gate.close();
    });
}

/// W-2, W-9, C9: `wakeup` and `close` reach a reader that is about to sleep at its sockets.
#[test]
fn reader_at_its_sockets_is_woken_and_cancelled() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let backstop = SocketSet::new().unwrap();
        let (gate, _shared, _far) = gate_at_socket(&environment, &backstop);
        expect_woken_and_cancelled(&gate);
    });
}

/// W-7, C-7: a sender without credit finds what has come, or has the I/O thread look out for it.
#[test]
fn credit_that_was_not_looked_for_is_found() {
    loom::model(|| {
        let transport = Transport::detached();
        let partition = partition(1, 1);
        let (shared, mut far, context) = server(&transport, &partition, 1);
        let set = Arc::new(SocketSet::new().unwrap());
        {
            let mut connection = shared.lock();
            look_out_by(&set, &mut connection);
            assert_eq!(
                connection.lookout.on(Event::LeftToOthers),
                Step::StartTicking
            );
            connection.leave_set();
        }
        let done = Arc::new(Mutex::new(false));
        let io = {
            let (set, shared, done) = (Arc::clone(&set), Arc::clone(&shared), Arc::clone(&done));
            thread::spawn(move || {
                loop {
                    let mut ready = Vec::new();
                    set.wait(&mut ready, None);
                    if !ready.is_empty() {
                        turn(&shared, &context);
                    } else if *done.lock() {
                        return context;
                    }
                }
            })
        };
        let writer = {
            let partition = Arc::clone(&partition);
            thread::spawn(move || {
                // That spends the credit.
                flushed(&partition, &[1]);
                flushed(&partition, &[2]);
            })
        };
        let credit = Message::AddCredit {
            credit: 1,
            receiver: RECEIVER,
        };
        arrive(&mut far, &encoded(&credit), &[&set]);
        writer.join().unwrap();
        *done.lock() = true;
        set.ring();
        let context = io.join().unwrap();
        // The writer leaves it to the I/O thread when that has the connection.
        transport.post(Command::Close);
        serve(&transport, |_| turn(&shared, &context));
        assert_eq!(count(&mut far), 2 * (BUFFER_RESPONSE_BYTES + 1));
        assert!(matches!(shared.lock().phase, Phase::Open));
    });
}

/// A server whose one reader has spent its credit, while the writer of `partition` has its two
/// buffers queued and is first in line for what arrives, before the set of the I/O thread.
fn writer_out_of_buffers(
    transport: &Arc<Transport>,
    partition: &Arc<PartitionShared>,
) -> (
    Arc<Mutex<Connection>>,
    UnixStream,
    Arc<Context>,
    Arc<SocketSet>,
) {
    let (shared, mut far, context) = server(transport, partition, 1);
    let set = Arc::new(SocketSet::new().unwrap());
    {
        let mut connection = shared.lock();
        look_out_by(&set, &mut connection);
        connection.attend_writers(&shared).unwrap();
    }
    flushed(partition, &[1]);
    assert_eq!(count(&mut far), BUFFER_RESPONSE_BYTES + 1);
    while let Some(buffer) = partition.pool.request_buffer().unwrap() {
        let mut builder = buffer.into_builder();
        let consumer = builder.create_buffer_consumer_from_beginning().unwrap();
        builder.append_and_commit(&[2]).unwrap();
        builder.finish();
        partition.subpartitions[0].add(consumer);
    }
    (shared, far, context, set)
}

/// W-2, W-3, W-6: credit that arrives lets the writer have a buffer: it receives it while it waits,
/// or else the I/O thread does, which is told of it when the writer does not wait.
#[test]
fn credit_finds_the_writer() {
    loom::model(|| {
        let transport = Transport::detached();
        let partition = partition(1, 1);
        let (shared, mut far, context, set) = writer_out_of_buffers(&transport, &partition);
        let waiting = partition.writer_at(&transport).unwrap();
        let done = Arc::new(Mutex::new(false));
        let io = io_thread(&set, &done, shared, context);
        let peer = {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                let credit = Message::AddCredit {
                    credit: 1,
                    receiver: RECEIVER,
                };
                arrive(&mut far, &encoded(&credit), &[waiting.set(), &set]);
                far
            })
        };
        while partition.pool.request_buffer().unwrap().is_none() {
            partition.wait_for_buffers(&partition.pool.availability(), None);
        }
        *done.lock() = true;
        set.ring();
        io.join().unwrap();
        assert_eq!(count(&mut peer.join().unwrap()), BUFFER_RESPONSE_BYTES + 1);
    });
}

/// W-2, W-9: the end of a partition reaches a writer that is about to sleep at its sockets.
#[test]
fn writer_at_its_sockets_is_cancelled() {
    loom::model(|| {
        let transport = Transport::detached();
        let partition = partition(1, 1);
        let (_shared, _far, _context, _set) = writer_out_of_buffers(&transport, &partition);
        let other = {
            let partition = Arc::clone(&partition);
            thread::spawn(move || partition.release(&Released::Released))
        };
        let mut taken = Vec::new();
        while let Ok(buffer) = partition.pool.request_buffer() {
            if buffer.is_none() {
                partition.wait_for_buffers(&partition.pool.availability(), None);
            }
            taken.extend(buffer);
        }
        assert!(partition.pool.is_destroyed());
        other.join().unwrap();
    });
}
