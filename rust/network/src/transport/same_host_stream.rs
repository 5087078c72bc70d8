//! A Unix socket that is notified of room only while it has none.
//!
//! A Unix socket reports room with every piece that its reader takes, even if nobody waits for it,
//! and would wake the I/O thread each time.  So room is requested after an incomplete write, and no
//! longer after a complete one.
//!
//! Descriptors arrive with the bytes of the handshake, while the connecting end waits for them; the
//! kernel closes later ones.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use mio::event::Source;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::lending::DESCRIPTORS;

/// The stream and its registration.
pub(super) struct SameHostStream {
    stream: UnixStream,
    registration: Option<(Registry, Token)>,
    /// True if the poll reports arrivals.
    reads: bool,
    /// True if the poll reports room.
    awaits_room: bool,
    /// Received descriptors, while they are expected.
    descriptors: Option<Vec<OwnedFd>>,
}

impl SameHostStream {
    /// Creates a stream that was accepted.
    pub(super) fn accepted(stream: UnixStream) -> Self {
        Self {
            stream,
            registration: None,
            reads: true,
            awaits_room: false,
            descriptors: None,
        }
    }

    /// Creates a stream to a peer that may send descriptors before the first frame.
    pub(super) fn connecting(stream: UnixStream) -> Self {
        Self {
            descriptors: Some(Vec::new()),
            ..Self::accepted(stream)
        }
    }

    /// Returns the received descriptors; later ones are not expected.
    pub(super) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.descriptors.take().unwrap_or_default()
    }

    /// Writes bytes, with descriptors at the first of them.
    pub(super) fn send_with_descriptors(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>; DESCRIPTORS],
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        debug_assert!(fits);
        let flags = SendFlags::NOSIGNAL;
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
        Ok(sent)
    }

    /// Reads, and stores received descriptors.
    fn receive(
        stream: &UnixStream,
        into: &mut [IoSliceMut<'_>],
        descriptors: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(stream, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                // Too many are still too many; none is then worth keeping.
                let free = (DESCRIPTORS + 1).saturating_sub(descriptors.len());
                descriptors.extend(rights.take(free));
            }
        }
        Ok(received.bytes)
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Processes the result of a write of `offered` bytes.
    fn after_write(&mut self, offered: usize, result: io::Result<usize>) -> io::Result<usize> {
        let stuck = match &result {
            Ok(count) => *count < offered,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        if stuck != self.awaits_room {
            // Registering again reports room gained meanwhile.
            self.listen(self.reads, stuck)?;
        }
        result
    }

    /// Stops the poll's reports of arrivals, which other threads watch.
    pub(super) fn leave_reading(&mut self) -> io::Result<()> {
        self.listen(false, self.awaits_room)
    }

    /// Sets whether the poll reports arrivals and room.
    fn listen(&mut self, reads: bool, awaits_room: bool) -> io::Result<()> {
        if let Some((registry, token)) = &self.registration {
            let before = interest(self.reads, self.awaits_room);
            match (before, interest(reads, awaits_room)) {
                (None, None) => {}
                (None, Some(on)) => self.stream.register(registry, *token, on)?,
                (Some(_), Some(on)) => self.stream.reregister(registry, *token, on)?,
                (Some(_), None) => self.stream.deregister(registry)?,
            }
            self.reads = reads;
            self.awaits_room = awaits_room;
        }
        Ok(())
    }
}

fn interest(reads: bool, awaits_room: bool) -> Option<Interest> {
    match (reads, awaits_room) {
        (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

impl Read for SameHostStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.descriptors {
            None => self.stream.read(into),
            Some(found) => Self::receive(&self.stream, &mut [IoSliceMut::new(into)], found),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.descriptors {
            None => self.stream.read_vectored(into),
            Some(found) => Self::receive(&self.stream, into, found),
        }
    }
}

impl Write for SameHostStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let result = self.stream.write(from);
        self.after_write(from.len(), result)
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.stream.write_vectored(from);
        self.after_write(from.iter().map(|slice| slice.len()).sum(), result)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for SameHostStream {
    fn register(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        self.registration = Some((registry.try_clone()?, token));
        self.reads = on.is_readable();
        self.awaits_room = on.is_writable();
        self.stream.register(registry, token, on)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        self.reads = on.is_readable();
        self.awaits_room = on.is_writable();
        self.stream.reregister(registry, token, on)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.registration = None;
        match interest(self.reads, self.awaits_room) {
            Some(_) => self.stream.deregister(registry),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;

    /// Returns the number of announcements of room since the last call.
    fn announced(poll: &mut Poll) -> usize {
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        events.iter().filter(|event| event.is_writable()).count()
    }

    #[test]
    fn room_is_announced_to_those_who_wait_for_it() {
        let mut poll = Poll::new().unwrap();
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let mut stream = SameHostStream::accepted(stream);
        let on = Interest::READABLE | Interest::WRITABLE;
        stream.register(poll.registry(), Token(0), on).unwrap();
        assert_eq!(announced(&mut poll), 1);
        let (data, mut into) = ([1; 4096], [0; 4096]);
        for _ in 0..3 {
            // Data that fits needs no notification of room.
            assert_eq!(stream.write(&data).unwrap(), data.len());
            assert_eq!(peer.read(&mut into).unwrap(), data.len());
            assert_eq!(announced(&mut poll), 0);
            while stream.write(&data).is_ok_and(|count| count == data.len()) {}
            assert_eq!(announced(&mut poll), 0);
            while peer.read(&mut into).is_ok() {}
            assert_eq!(announced(&mut poll), 1);
        }
    }
}
