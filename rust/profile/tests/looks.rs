//! Threads are looked at while they compute, wait and end.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use penstock_profile::{FrameLayout, Look, Sampler, Thread};

fn this_thread() -> i32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::gettid() }
}

#[inline(never)]
fn computes(id: &AtomicI32, go_on: &AtomicBool) {
    id.store(this_thread(), Ordering::Release);
    let mut number = 1_u64;
    while go_on.load(Ordering::Relaxed) {
        number = black_box(number.wrapping_mul(31));
    }
}

/// Ends what computes, also when the test fails.
struct AtLast<'a>(&'a AtomicBool);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn names(sampler: &mut Sampler, look: &Look) -> Vec<String> {
    look.native.iter().map(|one| sampler.name(*one).0).collect()
}

#[test]
fn a_thread_that_computes_is_seen_in_its_function() {
    let (id, go_on) = (AtomicI32::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        let _end = AtLast(&go_on);
        scope.spawn(|| computes(&id, &go_on));
        while id.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        let mut sampler = Sampler::new(FrameLayout::NONE).unwrap();
        let thread = Thread {
            id: id.load(Ordering::Acquire),
            state: 0,
        };
        for _ in 0..100 {
            // A busy machine may take its time.
            let Some(look) = sampler.look(&[thread]).remove(0) else {
                continue;
            };
            assert!(look.is_complete);
            assert!(look.frames.is_empty());
            let names = names(&mut sampler, &look);
            assert!(
                names.iter().any(|one| one.ends_with("computes")),
                "{names:?}"
            );
        }
    });
}

#[test]
fn a_thread_that_waits_goes_on_waiting() {
    let (told, tell) = sync_channel::<i32>(1);
    let (end, ended) = sync_channel::<()>(1);
    let waiting = thread::spawn(move || {
        told.send(this_thread()).unwrap();
        ended.recv().unwrap();
    });
    let id = tell.recv().unwrap();
    let mut sampler = Sampler::new(FrameLayout::NONE).unwrap();
    let look = loop {
        match sampler.look(&[Thread { id, state: 0 }]).remove(0) {
            Some(look) if !look.is_running => break look,
            _ => thread::yield_now(),
        }
    };
    let names = names(&mut sampler, &look);
    assert!(names.iter().any(|one| one.contains("recv")), "{names:?}");
    assert!(!waiting.is_finished());
    end.send(()).unwrap();
    waiting.join().unwrap();
    assert!(sampler.look(&[Thread { id, state: 0 }])[0].is_none());
}

/// Frames as an interpreter keeps them: previous, code, instruction, and whether it is an entry.
type Frame = [u64; 12];

#[test]
fn frames_of_an_interpreter_are_followed_and_what_leads_nowhere_is_left() {
    let layout = FrameLayout {
        thread_frame: 8,
        holder_frame: Some(0),
        previous: 0,
        code: 8,
        instruction: 16,
        entry: Some(24),
        shim: Some((32, 3)),
    };
    let address = |one: &Frame| one.as_ptr().expose_provenance() as u64;
    let outer: Frame = [0x10, 7, 70, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let shim: Frame = [address(&outer), 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    let middle: Frame = [address(&shim), 8, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let inner: Frame = [address(&middle), 9, 90, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let holder = [address(&inner)];
    let state = [0, holder.as_ptr().expose_provenance() as u64];
    let (told, tell) = sync_channel::<i32>(1);
    let (end, ended) = sync_channel::<()>(1);
    let waiting = thread::spawn(move || {
        told.send(this_thread()).unwrap();
        ended.recv().unwrap();
    });
    let id = tell.recv().unwrap();
    let mut sampler = Sampler::new(layout).unwrap();
    let mut look = |state: u64| loop {
        if let Some(look) = sampler.look(&[Thread { id, state }]).remove(0) {
            break look;
        }
    };
    let found = look(state.as_ptr().expose_provenance() as u64).frames;
    let told: Vec<_> = found
        .iter()
        .map(|one| (one.code, one.instruction, one.is_entry))
        .collect();
    assert_eq!(told, [(9, 90, false), (8, 80, true), (7, 70, true)]);
    assert!(look(0x1000).frames.is_empty());
    assert!(look(u64::MAX - 3).frames.is_empty());
    end.send(()).unwrap();
    waiting.join().unwrap();
}

#[test]
fn a_layout_beyond_what_is_read_is_refused() {
    let layout = FrameLayout {
        code: 89,
        ..FrameLayout::NONE
    };
    assert!(Sampler::new(layout).is_err());
}
