//! A channel's direct access to its connection, without the I/O thread.

use super::Command;
use super::connection::Connection;
use crate::gate::RemoteInputChannel;
use crate::sync::{Arc, Mutex, Weak};

/// The connection on which a channel has requested its partition.
pub(crate) struct Link(Weak<Mutex<Connection>>);

impl Link {
    pub(super) fn new(connection: &Arc<Mutex<Connection>>) -> Self {
        Self(Arc::downgrade(connection))
    }

    /// Announces the gathered credits of `channel` if the connection is idle; otherwise returns the
    /// command for the I/O thread.
    ///
    /// Never waits: the caller may hold the connection itself.
    pub(crate) fn announce(&self, channel: Arc<RemoteInputChannel>) -> Option<Command> {
        // A connection that has ended has failed its channels.
        let connection = self.0.upgrade()?;
        let Some(mut connection) = connection.try_lock() else {
            return Some(Command::AnnounceCredit(channel));
        };
        if !connection.is_idle() {
            return Some(Command::AnnounceCredit(channel));
        }
        connection.send_credits(&channel);
        if connection.transmit_now() {
            return None;
        }
        Some(Command::Transmit(connection.token))
    }
}
