//! Signals a thread, whose handler copies the thread's position: registers, stack and frames.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, size_of};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::memory::{self, MAX_BYTES};
use crate::{FrameLayout, InterpreterFrame, ProfileError, Thread};

const MAX_FRAMES: usize = 256;
/// Number of bytes that are read of a frame.
const FRAME_BYTES: usize = 96;
/// Time that a thread has to answer: it may be waiting for a processor, or for a disk in the
/// kernel.
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

// SAFETY: `ASKED` decides which thread may access the area: the asking one while it is `NOBODY` or
// `ANSWERED`, else the thread that has set it to `ANSWERING`, until that sets it to `ANSWERED`.
unsafe impl Sync for Shared {}

/// Never freed: a thread may answer after the asking thread has stopped waiting for it.
static AREA: Shared = Shared(UnsafeCell::new(Area {
    thread: Thread { id: 0, state: 0 },
    layout: FrameLayout::NONE,
    registers: [0; 3],
    stack_bytes: 0,
    stack: [0; MAX_BYTES],
    frame_count: 0,
    frames: [NO_FRAME; MAX_FRAMES],
}));
/// The kernel's id of the asked thread, or one of the negative numbers.
static ASKED: AtomicI32 = AtomicI32::new(NOBODY);
const NOBODY: i32 = -1;
const ANSWERING: i32 = -2;
const ANSWERED: i32 = -3;

/// The signal, once its handler is installed; only the holder of the lock asks.
static SIGNAL: Mutex<Option<i32>> = Mutex::new(None);

/// Returns whether all wanted fields of a frame lie within the bytes that are read of it.
pub(crate) fn fits(layout: &FrameLayout) -> bool {
    let last = FRAME_BYTES - size_of::<u64>();
    [layout.previous, layout.code, layout.instruction]
        .iter()
        .all(|offset| *offset <= last)
        && layout.entry.is_none_or(|offset| offset < FRAME_BYTES)
        && layout.shim.is_none_or(|(offset, _)| offset < FRAME_BYTES)
}

/// Installs the handler for a signal without one, at the first call.
///
/// The handler stays: a thread that has not answered in time receives the signal later, and without
/// a handler the signal would end the process.  Programs that the process starts do not inherit it.
pub(crate) fn install() -> Result<(), ProfileError> {
    let mut signal = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
    if signal.is_none() {
        // From the last one: programs that use such signals choose the first ones.
        *signal = Some(
            (libc::SIGRTMIN()..libc::SIGRTMAX())
                .rev()
                .find(|number| handle(*number))
                .ok_or(ProfileError::Signal)?,
        );
    }
    Ok(())
}

/// Installs the handler unless the signal has one; returns whether it was installed.
fn handle(signal: i32) -> bool {
    let mut present = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `present` receives the present handler; nothing is changed.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), present.as_mut_ptr()) };
    // SAFETY: zeros are a valid value of this C structure, which the call may have filled.
    let present = unsafe { present.assume_init() };
    if asked != 0 || present.sa_sigaction != libc::SIG_DFL {
        return false;
    }
    let mut action = present;
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = answer;
    action.sa_sigaction = handler as libc::sighandler_t;
    // The kernel restarts interrupted calls where it can; others return EINTR, as after any signal.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: a set of this type to be filled.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the handler only makes calls that are allowed in a handler, see `answer`.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0 }
}

/// Asks a thread; returns `None` if it has ended or does not answer in time.
pub(crate) fn capture(thread: Thread, layout: &FrameLayout) -> Option<Captured> {
    let guard = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
    let signal = (*guard)?;
    if !is_free() {
        return None;
    }
    // SAFETY: no thread is being asked, so no other one accesses the area.
    let area = unsafe { &mut *AREA.0.get() };
    (area.thread, area.layout) = (thread, *layout);
    (area.stack_bytes, area.frame_count) = (0, 0);
    ASKED.store(thread.id, Ordering::Release);
    // SAFETY: the call has no preconditions.
    let process = unsafe { libc::getpid() };
    // SAFETY: the signal has a handler; if the thread has ended, the call fails.
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

/// Returns whether the area may be written: a thread that answers late may still be writing to it.
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

/// Waits for the answer.  After a timeout, the request is withdrawn unless the thread is answering.
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
    // Withdraw the request; a thread that has begun to answer ends soon.
    ASKED
        .compare_exchange(thread_id, NOBODY, Ordering::AcqRel, Ordering::Acquire)
        .is_err_and(|_| is_free() && ASKED.load(Ordering::Acquire) == ANSWERED)
}

/// The handler.  It only makes system calls and accesses its own stack and the area: it allocates
/// nothing, takes no lock and follows no pointer that may be invalid.
extern "C" fn answer(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: every thread has its own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as before; the value of the interrupted code is restored below.
    let kept = unsafe { *errno };
    // SAFETY: the call has no preconditions.
    let this = unsafe { libc::gettid() };
    // If this thread is no longer asked, its signal arrived late.
    if ASKED
        .compare_exchange(this, ANSWERING, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
    {
        // SAFETY: with `ANSWERING`, only this thread accesses the area.
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
