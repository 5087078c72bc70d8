//! Models of the ticks for which the I/O thread leaves arrivals to other threads.
//!
//! The I/O thread has its own set and clock here, and receives the commands of the others.
//! Whenever it could only sleep until a tick, the tick occurs; the scheduler of the model decides
//! what else happens before.

use std::collections::{HashMap, VecDeque};

use loom::thread;
use mio::{Poll, Token};
use penstock_memory::{Buffer, DataType};

use super::{
    CREDIT_BYTES, RECEIVER, TOKEN, arrive, client, context, count, encoded, flushed, frame_for,
    opened, server, sockets,
};
use crate::environment::EnvironmentCore;
use crate::gate::{InputChannel, Next, SingleInputGate, Wait};
use crate::loom_models::{partition, pool, receive_two, remote_channel_of, remote_channel_with};
use crate::sync::{Arc, Mutex, Weak};
use crate::transport::backstop::Backstop;
use crate::transport::connection::{Connection, Side};
use crate::transport::io_thread::Context;
use crate::transport::link::Link;
use crate::transport::socket::Peer;
use crate::transport::socket_set::SocketSet;
use crate::transport::{Command, Transport, Waiting};
use crate::wire::{BUFFER_RESPONSE_BYTES, Message, ReceiverId};

/// The I/O thread's state of one connection.
struct Io {
    poll: Poll,
    backstop: Backstop,
    connections: HashMap<usize, Arc<Mutex<Connection>>>,
    context: Arc<Context>,
    scheduled: VecDeque<usize>,
    done: Arc<Mutex<bool>>,
}

impl Io {
    /// Takes over a connection that is open.
    fn new(shared: &Arc<Mutex<Connection>>, context: Arc<Context>) -> Self {
        let poll = Poll::new().unwrap();
        let backstop = Backstop::new(poll.registry(), Token(3)).unwrap();
        let set = Arc::clone(backstop.set());
        context.transport.wake_by(move || set.ring());
        let mut io = Self {
            poll,
            backstop,
            connections: HashMap::from([(TOKEN, Arc::clone(shared))]),
            context,
            scheduled: VecDeque::from([TOKEN]),
            done: Arc::default(),
        };
        io.turns();
        io
    }

    /// Runs until `end` is called.
    fn start(mut self) -> Running {
        let (set, done) = (Arc::clone(self.backstop.set()), Arc::clone(&self.done));
        let thread = thread::spawn(move || {
            while !*self.done.lock() {
                self.round();
            }
        });
        Running { set, done, thread }
    }

    /// Lets connections read and write.
    fn turns(&mut self) {
        while let Some(token) = self.scheduled.pop_front() {
            let shared = &self.connections[&token];
            let mut connection = shared.lock();
            connection.scheduled = false;
            connection.receive(&self.context).unwrap();
            connection.transmit().unwrap();
            self.backstop
                .after_turn(shared, &mut connection, self.poll.registry())
                .unwrap();
            if connection.has_work() {
                self.scheduled.push_back(token);
            }
        }
    }

    /// Serves as `IoThread::serve` does.
    fn round(&mut self) {
        let sleeps = self.backstop.next_tick().is_none();
        let commands = self.context.transport.take_commands_or(|| {
            if sleeps {
                self.backstop.set().wait(&mut Vec::new(), None);
            }
        });
        for command in commands {
            let mut connection = self.connections[&TOKEN].lock();
            match command {
                Command::Watch(_) => self.backstop.watch(&mut connection),
                Command::Transmit(_) => self.scheduled.push_back(TOKEN),
                Command::AnnounceCredit(channel) => connection.send_credits(&channel),
                Command::WatchCredit(channel) => self.backstop.watch_credit(channel),
                command => panic!("{command:?} is not expected"),
            }
        }
        let (connections, scheduled) = (&self.connections, &mut self.scheduled);
        self.backstop.on_arrivals(connections, scheduled);
        if let Some(tick) = self.backstop.next_tick() {
            thread::yield_now();
            for channel in self.backstop.tick(tick, connections, scheduled) {
                self.connections[&TOKEN].lock().send_credits(&channel);
                self.scheduled.push_back(TOKEN);
            }
        }
        self.turns();
    }
}

struct Running {
    set: Arc<SocketSet>,
    done: Arc<Mutex<bool>>,
    thread: thread::JoinHandle<()>,
}

impl Running {
    fn end(self) {
        *self.done.lock() = true;
        self.set.ring();
        self.thread.join().unwrap();
    }
}

/// Returns a gate with one channel, `id`, which has no connection yet.
fn gate(
    environment: &Arc<EnvironmentCore>,
    id: ReceiverId,
    insert: impl FnOnce(&Arc<crate::gate::RemoteInputChannel>),
) -> Arc<SingleInputGate> {
    Arc::new_cyclic(|gate: &Weak<SingleInputGate>| {
        let (remote, _, _) = remote_channel_with(environment, Weak::clone(gate), id);
        insert(&remote);
        let waiting = Waiting::remote(environment.transport_handle()).unwrap();
        let channels = vec![InputChannel::Remote(remote)];
        SingleInputGate::new(channels, pool(), Arc::clone(environment), waiting)
    })
}

fn one_byte(gate: &SingleInputGate) -> u8 {
    match gate.poll(Wait::Forever).unwrap() {
        Next::Buffer(next) => next.buffer[0],
        _ => panic!("a buffer was sent"),
    }
}

/// W-5: a reader has also read for another gate and does not return: after one tick, the reader of
/// the other gate gets the rest.
#[test]
fn what_a_reader_leaves_is_taken_at_a_tick() {
    loom::model(|| {
        const OTHER: ReceiverId = [2; 16];
        let environment = Arc::new(EnvironmentCore::detached());
        let (near, mut far) = sockets();
        let now = std::time::Instant::now();
        let connection = Connection::connecting(TOKEN, near, Peer::SameHost, now);
        let shared = Arc::new(Mutex::new(opened(connection)));
        let gates = [RECEIVER, OTHER].map(|id| {
            gate(&environment, id, |channel| {
                if let Side::Client(channels) = &mut shared.lock().side {
                    channels.insert(Arc::clone(channel));
                }
                channel.link(Link::new(&shared));
            })
        });
        for gate in &gates {
            let waiting = gate.waiting();
            waiting.attend(&shared, &shared.lock()).unwrap();
        }
        let io = Io::new(&shared, context(environment.transport_handle())).start();
        let other = {
            let gate = Arc::clone(&gates[1]);
            thread::spawn(move || one_byte(&gate))
        };
        let mut both = frame_for(RECEIVER, 0, DataType::DataBuffer, &[1]);
        both.extend(frame_for(OTHER, 0, DataType::DataBuffer, &[2]));
        let waiting = [gates[0].waiting(), gates[1].waiting()];
        arrive(
            &mut far,
            &both,
            &[waiting[0].set(), waiting[1].set(), &io.set],
        );
        // This reader takes the first one, and never reads the second one.
        assert_eq!(one_byte(&gates[0]), 1);
        assert_eq!(other.join().unwrap(), 2);
        io.end();
        for gate in &gates {
            gate.close();
        }
    });
}

/// W-6: a writer has read credit and is busy: after one tick, the I/O thread reads arrived credit,
/// and its set reports later arrivals.
#[test]
fn what_a_writer_leaves_is_taken_at_a_tick() {
    loom::model(|| {
        let transport = Transport::detached();
        let partition = partition(1, 1);
        let (shared, mut far, context) = server(&transport, &partition, 1);
        let io = Io::new(&shared, context);
        let writer = partition.writer_at(&transport).unwrap();
        for byte in 0..4 {
            flushed(&partition, &[byte]);
        }
        let mut sent = count(&mut far);
        let io = io.start();
        let credit = encoded(&Message::AddCredit {
            credit: 1,
            receiver: RECEIVER,
        });
        assert_eq!(credit.len(), CREDIT_BYTES);
        // The writer may read the first one, but not the others.
        let sets = [writer.set(), &*io.set];
        arrive(&mut far, &credit, &sets);
        writer.look();
        for _ in 0..2 {
            arrive(&mut far, &credit, &sets);
        }
        while sent < 4 * (BUFFER_RESPONSE_BYTES + 1) {
            thread::yield_now();
            sent += count(&mut far);
        }
        io.end();
    });
}

/// W-10: a reader stops while its credit accumulates: after two ticks, the I/O thread announces the
/// credit to the producer, which has none.
#[test]
fn what_a_reader_gathers_is_announced_at_a_tick() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let (channel, _global, _floating) = remote_channel_of(&environment, Weak::new());
        let (shared, mut far) = client(&channel);
        receive_two(&channel);
        let event = Buffer::from_bytes([0, 0, 0, 2], DataType::EventBuffer);
        channel.on_buffer(Some(event), 2, -1);
        let io = Io::new(&shared, context(environment.transport_handle())).start();
        // Two are waiting, more than the one that has returned.
        drop(channel.poll().unwrap());
        let mut sent = 0;
        while sent < CREDIT_BYTES {
            thread::yield_now();
            sent += count(&mut far);
        }
        io.end();
        assert_eq!(sent, CREDIT_BYTES);
        assert_eq!(channel.take_credits(), 0);
    });
}
