//! Asks a thread by a signal, and has its handler copy what the thread is at.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, size_of};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::memory::{self, MAX_BYTES};
use crate::{FrameLayout, InterpreterFrame, ProfileError, Thread};

const MAX_FRAMES: usize = 256;
/// Number of bytes read of a frame.
const FRAME_BYTES: usize = 96;
/// Time that a thread has to answer: it may wait for a processor, or within the kernel for a disk.
const PATIENCE: Duration = Duration::from_millis(100);
const NO_FRAME: InterpreterFrame = InterpreterFrame {
    code: 0,
    instruction: 0,
    is_entry: false,
};
const GLANCE: Duration = Duration::from_micros(20);

/// Captured state of a thread.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) instruction: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) frame_pointer: u64,
    /// The bytes from the stack pointer on.
    pub(crate) stack: Vec<u8>,
    pub(crate) frames: Vec<InterpreterFrame>,
}

/// Memory that the asking thread and the handler share.
struct Area {
    thread: Thread,
    layout: FrameLayout,
    registers: [u64; 3],
    stack_bytes: usize,
    stack: [u8; MAX_BYTES],
    frame_count: usize,
    frames: [InterpreterFrame; MAX_FRAMES],
}

struct Shared(UnsafeCell<Area>);

// SAFETY: who may touch the area is said by `ASKED`: who asks while it is `NOBODY` or `ANSWERED`,
// and the thread that has put `ANSWERING` there, until it puts `ANSWERED`.
unsafe impl Sync for Shared {}

/// Never freed: a thread may answer when nobody waits for it any more.
static AREA: Shared = Shared(UnsafeCell::new(Area {
    thread: Thread { id: 0, state: 0 },
    layout: FrameLayout::NONE,
    registers: [0; 3],
    stack_bytes: 0,
    stack: [0; MAX_BYTES],
    frame_count: 0,
    frames: [NO_FRAME; MAX_FRAMES],
}));
/// The thread that is asked, or one of the negative numbers.
static ASKED: AtomicI32 = AtomicI32::new(NOBODY);
const NOBODY: i32 = -1;
const ANSWERING: i32 = -2;
const ANSWERED: i32 = -3;

/// The signal, once its handler is there; who has the lock asks.
static SIGNAL: Mutex<Option<i32>> = Mutex::new(None);

/// Returns whether all that is asked of a frame lies within what is read of it.
pub(crate) fn fits(layout: &FrameLayout) -> bool {
    let last = FRAME_BYTES - size_of::<u64>();
    [layout.previous, layout.code, layout.instruction]
        .iter()
        .all(|offset| *offset <= last)
        && layout.entry.is_none_or(|offset| offset < FRAME_BYTES)
        && layout.shim.is_none_or(|(offset, _)| offset < FRAME_BYTES)
}

/// Installs the handler of a signal that has none, the first time.
///
/// It is not removed again: a thread that has not answered in time gets the signal later, which
/// would end the process if nothing handled it.  It is not inherited by programs that are started.
pub(crate) fn install() -> Result<(), ProfileError> {
    let mut signal = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
    if signal.is_none() {
        // From the end: programs that use such signals begin at the beginning.
        *signal = Some(
            (libc::SIGRTMIN()..libc::SIGRTMAX())
                .rev()
                .find(|number| handle(*number))
                .ok_or(ProfileError::Signal)?,
        );
    }
    Ok(())
}

/// Installs the handler unless the signal has one; tells whether it did.
fn handle(signal: i32) -> bool {
    let mut present = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `present` is memory for what is there; nothing is changed.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), present.as_mut_ptr()) };
    // SAFETY: zeros are a value of this C structure, which the call has perhaps filled.
    let present = unsafe { present.assume_init() };
    if asked != 0 || present.sa_sigaction != libc::SIG_DFL {
        return false;
    }
    let mut action = present;
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = answer;
    action.sa_sigaction = handler as libc::sighandler_t;
    // Calls that can be taken up again are; the others return EINTR as after any signal.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: a set of this type to be filled.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the handler does only what may be done in one, see `answer`.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0 }
}

/// Asks a thread; `None` when it has ended or does not answer in time.
pub(crate) fn capture(thread: Thread, layout: &FrameLayout) -> Option<Captured> {
    let guard = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
    let signal = (*guard)?;
    if !is_free() {
        return None;
    }
    // SAFETY: nobody is asked, so that nobody else touches the area.
    let area = unsafe { &mut *AREA.0.get() };
    (area.thread, area.layout) = (thread, *layout);
    (area.stack_bytes, area.frame_count) = (0, 0);
    ASKED.store(thread.id, Ordering::Release);
    // SAFETY: the call has no preconditions.
    let process = unsafe { libc::getpid() };
    // SAFETY: the signal has a handler; a thread that is gone makes the call fail.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread.id, signal) };
    if sent != 0 || !wait(thread.id) {
        ASKED.store(NOBODY, Ordering::Release);
        return None;
    }
    let captured = Captured {
        instruction: area.registers[0],
        stack_pointer: area.registers[1],
        frame_pointer: area.registers[2],
        stack: area.stack[..area.stack_bytes].to_vec(),
        frames: area.frames[..area.frame_count].to_vec(),
    };
    ASKED.store(NOBODY, Ordering::Release);
    Some(captured)
}

/// Returns whether the area may be written: a thread that began to answer late may be at it still.
fn is_free() -> bool {
    let begun = Instant::now();
    while ASKED.load(Ordering::Acquire) == ANSWERING {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        sleep(GLANCE);
    }
    true
}

/// Waits for the answer; without one, nobody is asked any more, or the thread is at it still.
fn wait(thread_id: i32) -> bool {
    let begun = Instant::now();
    loop {
        if ASKED.load(Ordering::Acquire) == ANSWERED {
            return true;
        }
        if begun.elapsed() > PATIENCE {
            break;
        }
        sleep(GLANCE);
    }
    // Taken back, unless the thread has begun, which then ends soon.
    ASKED
        .compare_exchange(thread_id, NOBODY, Ordering::AcqRel, Ordering::Acquire)
        .is_err_and(|_| is_free() && ASKED.load(Ordering::Acquire) == ANSWERED)
}

/// The handler.  It makes system calls and touches its own stack and the area: no allocation, no
/// lock, no pointer that may lead nowhere.
extern "C" fn answer(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: every thread has its errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as before; what the interrupted code has there is put back below.
    let kept = unsafe { *errno };
    // SAFETY: the call has no preconditions.
    let this = unsafe { libc::gettid() };
    // Who is not asked any more got its signal late.
    if ASKED
        .compare_exchange(this, ANSWERING, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
    {
        // SAFETY: `ANSWERING` gives the area to this thread alone.
        let area = unsafe { &mut *AREA.0.get() };
        // SAFETY: the kernel gives handlers with SA_SIGINFO the context of the thread.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        fill(area, &context.uc_mcontext.gregs);
        ASKED.store(ANSWERED, Ordering::Release);
    }
    // SAFETY: as before.
    unsafe { *errno = kept };
}

fn fill(area: &mut Area, registers: &[i64; 23]) {
    let register = |number: i32| registers[number as usize].cast_unsigned();
    area.registers = [
        register(libc::REG_RIP),
        register(libc::REG_RSP),
        register(libc::REG_RBP),
    ];
    area.stack_bytes = memory::read(area.registers[1], &mut area.stack);
    let Some(mut at) = innermost(area.thread.state, &area.layout) else {
        return;
    };
    let mut frame = [0_u8; FRAME_BYTES];
    while at != 0 && area.frame_count < MAX_FRAMES {
        if memory::read(at, &mut frame) != FRAME_BYTES {
            return;
        }
        let layout = &area.layout;
        if layout
            .shim
            .is_some_and(|(place, value)| frame[place] == value)
        {
            // The frame before it in the list is the first that native code called.
            if let Some(last) = area.frame_count.checked_sub(1) {
                area.frames[last].is_entry = true;
            }
        } else {
            area.frames[area.frame_count] = InterpreterFrame {
                code: word(&frame, layout.code),
                instruction: word(&frame, layout.instruction),
                is_entry: layout.entry.is_some_and(|place| frame[place] != 0),
            };
            area.frame_count += 1;
        }
        at = word(&frame, layout.previous);
    }
}

fn innermost(state: u64, layout: &FrameLayout) -> Option<u64> {
    if state == 0 {
        return None;
    }
    let found = memory::read_word(state.checked_add(layout.thread_frame as u64)?)?;
    match layout.holder_frame {
        None => Some(found),
        Some(offset) => memory::read_word(found.checked_add(offset as u64)?),
    }
}

fn word(frame: &[u8; FRAME_BYTES], offset: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&frame[offset..offset + 8]);
    u64::from_ne_bytes(bytes)
}
