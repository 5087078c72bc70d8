//! The C function table: what the Cython extensions call per buffer, without the GIL.
//!
//! Mirrored by `native/penstock/_native/records/capi.h`.  Append only; any other change bumps
//! [`ABI_VERSION`].  A panic that left a function would abort the process: each runs its body in
//! [`guard`], which returns −1 and keeps the error's code and text for `last_error`.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use penstock_memory::DataType;
use penstock_network::{Batch, Cursor, Error, ErrorCode};
use pyo3::Python;

use crate::handles::{GateHandle, PartitionHandle};
use crate::waiting::interruptibly_detached;

/// Version of the table's layout and meaning.
pub(crate) const ABI_VERSION: u32 = 2;

/// Content of a gate's buffer; laid out as `PsBatch` is in C.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PsBatch {
    kind: i32,
    channel: i32,
    data_type: i32,
    spanning: *const u8,
    spanning_len: usize,
    records: *const u8,
    records_len: usize,
}

/// Returned when a signal handler raised; the Python exception is set.
const RAISED: i32 = -2;

const KIND_NONE: i32 = 0;
const KIND_DATA: i32 = 1;
const KIND_EVENT: i32 = 2;
const KIND_END: i32 = 3;

/// The table itself; laid out as `CApi` is in C.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CApi {
    abi_version: u32,
    struct_size: u32,
    last_error: unsafe extern "C" fn(*mut u8, usize) -> usize,
    partition_next_buffer: unsafe extern "C" fn(*const PartitionHandle, i32, *mut Cursor) -> i32,
    partition_try_next_buffer:
        unsafe extern "C" fn(*const PartitionHandle, i32, *mut Cursor) -> i32,
    partition_append:
        unsafe extern "C" fn(*const PartitionHandle, i32, *mut Cursor, *const u8, usize) -> i32,
    partition_flush: unsafe extern "C" fn(*const PartitionHandle, i32) -> i32,
    partition_event: unsafe extern "C" fn(*const PartitionHandle, *const u8, usize, i32) -> i32,
    gate_next: unsafe extern "C" fn(*const GateHandle, i64, *mut PsBatch) -> i32,
    gate_try_next: unsafe extern "C" fn(*const GateHandle, *mut PsBatch) -> i32,
    gate_urgent: unsafe extern "C" fn(*const GateHandle) -> *const u8,
    gate_next_urgent: unsafe extern "C" fn(*const GateHandle, *mut PsBatch) -> i32,
}

const _: () = assert!(size_of::<CApi>() == 88);
const _: () = assert!(core::mem::offset_of!(CApi, last_error) == 8);
const _: () = assert!(size_of::<Cursor>() == 32);
const _: () = assert!(core::mem::offset_of!(Cursor, marker) == 16);
const _: () = assert!(size_of::<PsBatch>() == 48);

/// The one table of the process.
pub(crate) const TABLE: CApi = CApi {
    abi_version: ABI_VERSION,
    struct_size: size_of::<CApi>() as u32,
    last_error,
    partition_next_buffer,
    partition_try_next_buffer,
    partition_append,
    partition_flush,
    partition_event,
    gate_next,
    gate_try_next,
    gate_urgent,
    gate_next_urgent,
};

thread_local! {
    /// Code (big-endian) and message of the last failed call of this thread.
    static LAST_ERROR: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn remember(code: ErrorCode, message: &str) {
    LAST_ERROR.with_borrow_mut(|text| {
        text.clear();
        text.extend_from_slice(&code.number().to_be_bytes());
        text.extend_from_slice(message.as_bytes());
    });
}

/// Runs the body of a table function; on an error or a panic, keeps its text and returns −1.
fn guard(body: impl FnOnce() -> Result<i32, Error>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            remember(error.code(), &error.to_string());
            -1
        }
        Err(panic) => {
            remember(
                ErrorCode::Io,
                &format!("the data plane panicked: {}", text_of(&*panic)),
            );
            -1
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}

/// Translates C's index of a subpartition: −1 is the broadcast builder, or all subpartitions.
fn subpartition(index: i32) -> Option<usize> {
    usize::try_from(index).ok()
}

/// # Safety
///
/// `out` must be valid for writes of `capacity` bytes.
unsafe extern "C" fn last_error(out: *mut u8, capacity: usize) -> usize {
    LAST_ERROR.with_borrow(|text| {
        let count = text.len().min(capacity);
        // SAFETY: `text` has `count` bytes, and the caller promises that many at `out`.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), out, count) };
        text.len()
    })
}

/// # Safety
///
/// `partition` must come from a live capsule, `cursor` must be valid, and only the caller writes.
unsafe extern "C" fn partition_next_buffer(
    partition: *const PartitionHandle,
    index: i32,
    cursor: *mut Cursor,
) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*partition };
    // SAFETY: only the caller uses this cursor.
    let cursor = unsafe { &mut *cursor };
    guard(|| {
        handle
            .partition
            .next_buffer(subpartition(index), cursor)
            .map(|()| 0)
    })
}

/// # Safety
///
/// As for [`partition_next_buffer`].
unsafe extern "C" fn partition_try_next_buffer(
    partition: *const PartitionHandle,
    index: i32,
    cursor: *mut Cursor,
) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*partition };
    // SAFETY: only the caller uses this cursor.
    let cursor = unsafe { &mut *cursor };
    guard(|| {
        let opened = handle
            .partition
            .try_next_buffer(subpartition(index), cursor)?;
        Ok(i32::from(!opened))
    })
}

/// # Safety
///
/// As for [`partition_next_buffer`]; `data` must be valid for reads of `len` bytes.
unsafe extern "C" fn partition_append(
    partition: *const PartitionHandle,
    index: i32,
    cursor: *mut Cursor,
    data: *const u8,
    len: usize,
) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*partition };
    // SAFETY: only the caller uses this cursor.
    let cursor = unsafe { &mut *cursor };
    // SAFETY: the caller's bytes are valid for the call.
    let data = unsafe { bytes(data, len) };
    guard(|| {
        handle
            .partition
            .append(subpartition(index), cursor, data)
            .map(|()| 0)
    })
}

/// # Safety
///
/// `partition` must come from a live capsule.
unsafe extern "C" fn partition_flush(partition: *const PartitionHandle, index: i32) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*partition };
    guard(|| handle.partition.flush(subpartition(index)).map(|()| 0))
}

/// # Safety
///
/// `partition` must come from a live capsule; `data` must be valid for reads of `len` bytes.
unsafe extern "C" fn partition_event(
    partition: *const PartitionHandle,
    data: *const u8,
    len: usize,
    data_type: i32,
) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*partition };
    // SAFETY: the caller's bytes are valid for the call.
    let data = unsafe { bytes(data, len) };
    guard(|| {
        handle
            .partition
            .broadcast_event(data, event_type(i64::from(data_type))?)
            .map(|()| 0)
    })
}

/// # Safety
///
/// `gate` must come from a live capsule, and `batch` must be valid.
unsafe extern "C" fn gate_next(
    gate: *const GateHandle,
    timeout_ms: i64,
    batch: *mut PsBatch,
) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*gate };
    // SAFETY: only the caller uses this batch.
    let batch = unsafe { &mut *batch };
    guard(|| {
        handle.with_reader(|reader| {
            let waited =
                interruptibly_detached(timeout(timeout_ms), |left| match reader.next_batch(left) {
                    Ok(Batch::Nothing) => None,
                    found => Some(found.map(|found| fill(batch, &found))),
                });
            match waited {
                Ok(Some(found)) => found?,
                Ok(None) => fill(batch, &Batch::Nothing),
                Err(raised) => {
                    Python::attach(|py| raised.restore(py));
                    return Ok(RAISED);
                }
            }
            Ok(0)
        })
    })
}

/// # Safety
///
/// As for [`gate_next`].
unsafe extern "C" fn gate_try_next(gate: *const GateHandle, batch: *mut PsBatch) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*gate };
    // SAFETY: only the caller uses this batch.
    let batch = unsafe { &mut *batch };
    guard(|| {
        handle.with_reader(|reader| {
            fill(batch, &reader.try_next_batch()?);
            Ok(0)
        })
    })
}

/// # Safety
///
/// `gate` must come from a live capsule, which must outlive what is returned.
unsafe extern "C" fn gate_urgent(gate: *const GateHandle) -> *const u8 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*gate };
    handle.gate.urgent_ptr()
}

/// # Safety
///
/// As for [`gate_next`].
unsafe extern "C" fn gate_next_urgent(gate: *const GateHandle, batch: *mut PsBatch) -> i32 {
    // SAFETY: the caller keeps the capsule's owner alive.
    let handle = unsafe { &*gate };
    // SAFETY: only the caller uses this batch.
    let batch = unsafe { &mut *batch };
    guard(|| {
        handle.with_reader(|reader| {
            fill(batch, &reader.next_urgent()?);
            Ok(0)
        })
    })
}

/// The duration of a timeout in milliseconds; a negative one means no timeout.
pub(crate) fn timeout(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// The data type of an event, from its ordinal.
pub(crate) fn event_type(ordinal: i64) -> Result<DataType, Error> {
    u8::try_from(ordinal)
        .ok()
        .and_then(DataType::from_ordinal)
        .ok_or_else(|| Error::IllegalState(format!("no buffer data type {ordinal}")))
}

/// # Safety
///
/// `data` must be valid for reads of `len` bytes for as long as the caller uses the slice.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// Writes what `from` points to into `batch`; the reader keeps it alive until its next call.
fn fill(batch: &mut PsBatch, from: &Batch<'_>) {
    *batch = PsBatch {
        kind: KIND_NONE,
        channel: -1,
        data_type: 0,
        spanning: std::ptr::null(),
        spanning_len: 0,
        records: std::ptr::null(),
        records_len: 0,
    };
    match *from {
        Batch::Nothing | Batch::Woken => {}
        Batch::End => batch.kind = KIND_END,
        Batch::Data {
            channel,
            data_type,
            spanning,
            records,
        } => {
            batch.kind = KIND_DATA;
            batch.channel = channel as i32;
            batch.data_type = i32::from(data_type.ordinal());
            if let Some(spanning) = spanning {
                batch.spanning = spanning.as_ptr();
                batch.spanning_len = spanning.len();
            }
            batch.records = records.as_ptr();
            batch.records_len = records.len();
        }
        Batch::Event {
            channel,
            data_type,
            bytes,
        } => {
            batch.kind = KIND_EVENT;
            batch.channel = channel as i32;
            batch.data_type = i32::from(data_type.ordinal());
            batch.records = bytes.as_ptr();
            batch.records_len = bytes.len();
        }
    }
}
