//! Reads memory of this process that may not be readable.

use std::io;
use std::mem::size_of;

use crate::ProfileError;

const PAGE: usize = 4096;
/// Number of pages read at once, with one more for a beginning within a page.
const MAX_PAGES: usize = 65;
/// Largest number of bytes that [`read`] reads.
pub(crate) const MAX_BYTES: usize = (MAX_PAGES - 1) * PAGE;

/// Copies the readable bytes from `address` on; returns their number.
///
/// Safe to call in a signal handler.
pub(crate) fn read(address: u64, target: &mut [u8]) -> usize {
    let length = target.len().min(MAX_BYTES);
    let local = libc::iovec {
        iov_base: target.as_mut_ptr().cast(),
        iov_len: length,
    };
    let empty = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    // Page by page: the kernel copies a whole piece or nothing of it.
    let mut remote = [empty; MAX_PAGES];
    let mut count = 0;
    let mut at = usize::try_from(address).unwrap_or(0);
    let Some(end) = at.checked_add(length) else {
        return 0;
    };
    while at < end {
        let next = ((at / PAGE + 1) * PAGE).min(end);
        remote[count] = libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(at),
            iov_len: next - at,
        };
        count += 1;
        at = next;
    }
    // SAFETY: the call has no preconditions.
    let process = unsafe { libc::getpid() };
    // SAFETY: `local` is memory of `target` alone, and the remote addresses are checked by the
    // kernel, which fails instead of reading what cannot be read.
    let copied = unsafe {
        libc::process_vm_readv(
            process,
            &raw const local,
            1,
            remote.as_ptr(),
            count as u64,
            0,
        )
    };
    usize::try_from(copied).unwrap_or(0)
}

/// The eight bytes at an address, if they can be read.
pub(crate) fn read_word(address: u64) -> Option<u64> {
    let mut bytes = [0; size_of::<u64>()];
    (read(address, &mut bytes) == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// Checks that the system call is allowed.
pub(crate) fn check() -> Result<(), ProfileError> {
    let known = 0x5EED_u64;
    let address = (&raw const known).expose_provenance() as u64;
    if read_word(address) == Some(known) {
        Ok(())
    } else {
        Err(ProfileError::Memory(io::Error::last_os_error()))
    }
}
