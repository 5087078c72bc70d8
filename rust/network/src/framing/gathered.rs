//! Bytes that are gathered from several buffers.

/// Payloads from this size on are kept apart from their source, see [`Gathered`].
const FAR_COPY_BYTES: usize = 16 << 10;
/// Bytes of a page, as far as the processor compares addresses.
const PAGE_BYTES: usize = 4 << 10;

/// Payload that is gathered, behind some bytes that mean nothing.
///
/// A copy to an address that lies a few bytes behind its source, modulo a page, is many times
/// slower than any other, so the payload begins half a page away from where its source does.  The
/// buffers of a pool lie alike within their pages, so that holds for all that follow, too.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// Number of bytes in front of the payload.
    lead: usize,
}

impl Gathered {
    /// Empties it and makes room for a payload of `length` bytes that begins at `source`.
    pub(super) fn begin(&mut self, length: usize, source: &[u8]) {
        self.bytes.clear();
        self.lead = 0;
        if length < FAR_COPY_BYTES {
            self.bytes.reserve(length);
            return;
        }
        self.bytes.reserve(length + PAGE_BYTES);
        let wanted = source.as_ptr().addr() + PAGE_BYTES / 2;
        self.lead = wanted.wrapping_sub(self.bytes.as_ptr().addr()) % PAGE_BYTES;
        self.bytes.resize(self.lead, 0);
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.lead..]
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.lead
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lead = 0;
    }
}
