//! The credit scenario of internals M19, without a producer: 2 exclusive and 14 floating buffers.

use std::time::Duration;

use penstock_memory::{LocalPoolOptions, NetworkBufferPool};

use super::*;
use crate::environment::EnvironmentConfig;
use crate::partition::PartitionManager;

struct Fixture {
    global: Arc<NetworkBufferPool>,
    pool: Arc<LocalBufferPool>,
    channel: Arc<RemoteInputChannel>,
}

impl Fixture {
    fn new(exclusive: usize, floating: usize) -> Self {
        let global =
            NetworkBufferPool::new(exclusive + floating, 64, Duration::from_secs(1)).unwrap();
        let pool = global
            .create_buffer_pool(LocalPoolOptions::new(floating, floating))
            .unwrap();
        let config = Arc::new(EnvironmentConfig::new("executor", b"token"));
        let transport =
            Transport::start(&config, &Arc::new(PartitionManager::default()), None).unwrap();
        // Its thread would take credits under the tests' hands.
        transport.close();
        let config = RemoteChannelConfig {
            index: 0,
            id: [1; 16],
            address: ([127, 0, 0, 1], 1).into(),
            partition_id: [1; 60],
            subpartition: 0,
            exclusive: global.request_unpooled_memory_segments(exclusive).unwrap(),
            floating_pool: Arc::clone(&pool),
            transport,
        };
        let channel = RemoteInputChannel::new(Weak::new(), config);
        Self {
            global,
            pool,
            channel,
        }
    }

    /// Takes a buffer as if data had arrived, without touching the requirement.
    fn buffers(&self, count: usize) -> Vec<UniqueBuffer> {
        let required = self.channel.state.lock().credits.required;
        let buffers = (0..count)
            .map(|_| self.channel.take_buffer().unwrap().unwrap())
            .collect();
        self.channel.state.lock().credits.required = required;
        buffers
    }

    /// Data arrives under these numbers, of a producer with so much backlog.
    fn receive(&self, numbers: std::ops::Range<i32>, backlog: i32) {
        for number in numbers {
            let mut unique = self.channel.take_buffer().unwrap().unwrap();
            unique.append(&[1; 8]);
            let buffer = unique.into_buffer(DataType::DataBuffer);
            self.channel.on_buffer(Some(buffer), number, backlog);
            self.assert_all_credited();
        }
    }

    /// C-7.
    fn assert_all_credited(&self) {
        let credits = &self.channel.state.lock().credits;
        let known = credits.outstanding + credits.unannounced;
        assert_eq!(known as usize, credits.available());
    }

    fn state(&self) -> (usize, usize, bool) {
        let credits = &self.channel.state.lock().credits;
        (credits.available(), credits.required, credits.waiting)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.channel.release();
        self.pool.lazy_destroy();
        assert_eq!(
            self.global.available_segments(),
            self.global.total_segments(),
            "C-11"
        );
    }
}

/// C-8: floating buffers are asked for only while fewer than required are available.
#[test]
fn floating_buffers_follow_the_backlog() {
    let fixture = Fixture::new(2, 14);
    let channel = &fixture.channel;
    // Somebody else has three of the floating buffers.
    let mut others: Vec<_> = (0..3)
        .map(|_| fixture.pool.request_buffer().unwrap().unwrap())
        .collect();
    channel.on_backlog(14);
    assert_eq!(fixture.state(), (13, 16, true));
    channel.on_backlog(16);
    assert_eq!(
        fixture.state(),
        (13, 18, true),
        "no second request while waiting"
    );
    // A buffer that comes back goes to the one who waits, who lines up again.
    others.pop();
    assert_eq!(fixture.state(), (14, 18, true));
    channel.on_backlog(13);
    assert_eq!(fixture.state(), (14, 15, true));
    others.pop();
    assert_eq!(fixture.state(), (15, 15, false));
    // Nobody waits: the last one stays in the pool.
    others.pop();
    assert_eq!(fixture.state(), (15, 15, false));
    assert_eq!(fixture.pool.available_segments(), 1);
    channel.on_backlog(15);
    assert_eq!(fixture.state(), (16, 17, true));
}

/// C-7: every obtained buffer is credited once, and a surplus goes back as exclusives return.
#[test]
fn credits_match_buffers() {
    let fixture = Fixture::new(2, 4);
    let channel = &fixture.channel;
    assert_eq!(channel.on_backlog(4), Due::Now(4));
    assert_eq!(channel.take_credits(), 0);
    // Floating buffers go out first, then the exclusive ones.
    let mut taken = fixture.buffers(6);
    assert_eq!(fixture.state().0, 0);
    assert!(matches!(
        channel.take_buffer(),
        Err(Error::CorruptStream(_))
    ));
    channel.state.lock().credits.required = 0;
    channel.on_backlog(0);
    drop(taken.split_off(4));
    assert_eq!(fixture.state().0, 2, "both exclusive buffers are back");
    assert_eq!(channel.take_credits(), 2);
    drop(taken);
    assert_eq!(fixture.pool.available_segments(), 4);
}

/// C-7: credit is put off while the producer has some left and nothing to send, and never beyond.
#[test]
fn credit_comes_after_the_record_that_it_follows() {
    let fixture = Fixture::new(2, 4);
    let channel = &fixture.channel;
    let arrive = |number, backlog| {
        let mut unique = channel.take_buffer().unwrap().unwrap();
        unique.append(&[1; 8]);
        let buffer = unique.into_buffer(DataType::DataBuffer);
        let (due, _) = channel.on_buffer(Some(buffer), number, backlog);
        fixture.assert_all_credited();
        due
    };
    assert_eq!(arrive(0, 0), Due::WhenIdle);
    assert_eq!(arrive(1, 0), Due::Now(2), "none was left");
    assert_eq!(arrive(2, 1), Due::Now(2), "one waits");
}

/// C-7: while a producer has credit, a message of it stands for half of the channel's buffers, or
/// for the last of those that wait to be read.
#[test]
fn credit_of_a_stream_gathers() {
    let fixture = Fixture::new(2, 8);
    let channel = &fixture.channel;
    assert_eq!(channel.on_backlog(8), Due::Now(8));
    for number in 0..8 {
        let mut unique = channel.take_buffer().unwrap().unwrap();
        unique.append(&[1; 8]);
        let buffer = unique.into_buffer(DataType::DataBuffer);
        let (due, _) = channel.on_buffer(Some(buffer), number, 8);
        assert_eq!(due, Due::No);
        fixture.assert_all_credited();
    }
    let mut messages = Vec::new();
    for read in 1..=8 {
        drop(channel.poll().unwrap());
        if channel.state.lock().credits.announcing {
            messages.push((read, channel.take_credits()));
        }
        fixture.assert_all_credited();
    }
    assert_eq!(messages, [(5, 5), (8, 3)]);
}

/// C5: a channel without exclusive buffers lends its floating ones to others while it is blocked;
/// its producer forgets what credit it has when it goes on.
#[test]
fn a_blocking_event_forfeits_floating_buffers() {
    let fixture = Fixture::new(0, 4);
    let channel = &fixture.channel;
    assert_eq!(channel.on_backlog(3), Due::Now(3));
    assert_eq!(fixture.pool.available_segments(), 1);
    let barrier = Buffer::from_bytes([0; 4], DataType::AlignedCheckpointBarrier);
    let (due, _) = channel.on_buffer(Some(barrier), 0, 0);
    assert_eq!((due, channel.take_credits()), (Due::No, 0));
    assert_eq!(fixture.state(), (0, 0, false));
    assert_eq!(fixture.pool.available_segments(), 4);
    assert_eq!(channel.on_backlog(2), Due::Now(2));
}

/// C-7, C11: credit gathers up to half of the buffers, whether or not the producer has some left.
#[test]
fn credit_gathers_to_half_of_the_buffers() {
    for outstanding in [2, 0] {
        let fixture = Fixture::new(4, 1);
        let channel = &fixture.channel;
        let event = || Buffer::from_bytes([0, 0, 0, 2], DataType::EventBuffer);
        for number in 0..3 - outstanding {
            channel.on_buffer(Some(event()), number, -1);
        }
        let segments = std::mem::take(&mut channel.state.lock().credits.exclusive);
        channel.state.lock().credits.outstanding = outstanding;
        let mut segments = segments.into_iter();
        let mut recycle = || channel.recycle(segments.next().unwrap());
        let announcing = || channel.state.lock().credits.announcing;
        for gathered in 1..=2 {
            recycle();
            assert!(!announcing(), "{gathered} of the six");
        }
        recycle();
        assert!(announcing(), "half of them");
        assert_eq!(channel.take_credits(), 3);
    }
}

/// C-7, C11: a producer without credit is not told of each buffer, and is told of all of them by
/// the time that what waits is read.
#[test]
fn a_producer_without_credit_is_told_by_halves() {
    let fixture = Fixture::new(2, 8);
    let channel = &fixture.channel;
    assert_eq!(channel.on_backlog(8), Due::Now(8));
    fixture.receive(0..10, 8);
    let mut messages = Vec::new();
    for read in 1..=10 {
        drop(channel.poll().unwrap());
        if channel.state.lock().credits.announcing {
            messages.push((read, channel.take_credits()));
        }
        fixture.assert_all_credited();
    }
    assert_eq!(messages, [(5, 5), (10, 5)]);
}

/// C11: what has gathered is announced though nothing more comes back: the last exclusive buffer
/// is kept by who has read it, and floating ones go to their pool.
#[test]
fn a_buffer_that_is_kept_holds_no_credit_back() {
    let fixture = Fixture::new(2, 2);
    let channel = &fixture.channel;
    fixture.receive(0..2, -1);
    assert_eq!(channel.on_backlog(0), Due::Now(2));
    fixture.receive(2..4, -1);
    let announcing = || channel.state.lock().credits.announcing;
    drop(channel.poll().unwrap());
    assert!(!announcing(), "one, and three wait");
    let kept = channel.poll().unwrap();
    drop(channel.poll().unwrap());
    let last = channel.poll().unwrap();
    assert!(announcing(), "nothing waits");
    assert_eq!(channel.take_credits(), 1);
    drop((kept, last));
}

/// C11: a reader that stops leaves its producer without credit for no longer than two ticks.
#[test]
fn what_has_gathered_is_announced_when_the_reader_stops() {
    let fixture = Fixture::new(2, 8);
    let channel = &fixture.channel;
    assert_eq!(channel.on_backlog(8), Due::Now(8));
    fixture.receive(0..10, 8);
    for _ in 0..2 {
        drop(channel.poll().unwrap());
    }
    assert!(!channel.state.lock().credits.announcing, "eight wait");
    assert!(channel.gathers_on(), "eight were announced in this tick");
    assert!(!channel.gathers_on());
    assert_eq!(channel.take_credits(), 2);
    fixture.assert_all_credited();
}

/// Sequence numbers are checked and wrap as 32 bits do; an empty buffer counts too.
#[test]
fn sequence_numbers_wrap() {
    let fixture = Fixture::new(1, 1);
    let channel = &fixture.channel;
    channel.state.lock().expected_sequence_number = i32::MAX;
    channel.on_buffer(None, i32::MAX, 0);
    let event = Buffer::from_bytes([0, 0, 0, 2], DataType::EventBuffer);
    channel.on_buffer(Some(event), i32::MIN, -1);
    assert!(channel.poll().unwrap().is_some_and(|polled| !polled.more));
    assert_eq!(channel.state.lock().expected_sequence_number, i32::MIN + 1);
}

/// Priority events overtake, and an announceable barrier is announced ahead of the data.
#[test]
fn priority_and_announcements_come_first() {
    let fixture = Fixture::new(1, 1);
    let channel = &fixture.channel;
    let kinds = [
        DataType::EventBuffer,
        DataType::TimeoutableAlignedCheckpointBarrier,
        DataType::PrioritizedEventBuffer,
    ];
    for (number, data_type) in (0_i32..).zip(kinds) {
        let buffer = Buffer::from_bytes([0, 0, 0, number as u8], data_type);
        channel.on_buffer(Some(buffer), number, 0);
    }
    let mut order = Vec::new();
    while let Some(polled) = channel.poll().unwrap() {
        order.push((polled.buffer.data_type(), polled.buffer.to_vec()));
    }
    let priority = DataType::PrioritizedEventBuffer;
    assert_eq!(
        order[0],
        (priority, vec![0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 1])
    );
    assert_eq!(order[1], (priority, vec![0, 0, 0, 2]));
    assert_eq!(order[2].0, DataType::EventBuffer);
    assert_eq!(order[3].0, DataType::TimeoutableAlignedCheckpointBarrier);
}

/// C-11: released with buffers everywhere, from several threads, nothing leaks.
#[test]
fn a_release_at_any_point_leaks_nothing() {
    for round in 0..50_u64 {
        let fixture = Fixture::new(2, 6);
        let channel = &fixture.channel;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..20_i32 {
                    channel.on_backlog(((round + number as u64) % 9) as usize);
                    if let Ok(Some(mut unique)) = channel.take_buffer() {
                        unique.append(&[1; 8]);
                        let buffer = unique.into_buffer(DataType::DataBuffer);
                        channel.on_buffer(Some(buffer), number, 1);
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..20 {
                    drop(channel.poll());
                }
            });
            scope.spawn(|| channel.release());
        });
    }
}

/// C-9: whatever comes and goes, a channel's exclusive segments are its own until it is released.
#[test]
fn exclusive_segments_stay_with_their_channel() {
    let fixture = Fixture::new(2, 3);
    let channel = &fixture.channel;
    for backlog in [0, 3, 1, 9, 0] {
        let _ = channel.on_backlog(backlog);
        let available = fixture.state().0;
        let taken = fixture.buffers(available);
        let _ = channel.on_backlog(0);
        drop(taken);
        assert_eq!(
            channel.state.lock().credits.exclusive.len(),
            2,
            "after a backlog of {backlog}"
        );
    }
    let before = fixture.global.available_segments();
    channel.release();
    assert_eq!(fixture.global.available_segments(), before + 2);
}
