//! Bytes that are gathered from several buffers.

/// Payloads of at least this size are placed apart from their source; see [`Gathered`].
const FAR_COPY_BYTES: usize = 16 << 10;
/// Page size, as far as the processor compares addresses.
const PAGE_BYTES: usize = 4 << 10;

/// Gathered payload, after some unused bytes.
///
/// A copy to an address that lies a few bytes behind its source, modulo a page, is many times
/// slower than any other, so the payload begins half a page away from its source's offset.  The
/// buffers of a pool have equal offsets in their pages, so this holds for all following ones as
/// well.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// Number of bytes before the payload.
    lead: usize,
}

impl Gathered {
    /// Empties it and reserves room for a payload of `length` bytes that begins at `source`.
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
