//! A channel's way to its connection, past the I/O thread.

use super::Command;
use super::connection::Connection;
use crate::gate::RemoteInputChannel;
use crate::sync::{Arc, Mutex, Weak};

/// The connection that a channel has asked on.
pub(crate) struct Link(Weak<Mutex<Connection>>);

impl Link {
    pub(super) fn new(connection: &Arc<Mutex<Connection>>) -> Self {
        Self(Arc::downgrade(connection))
    }

    /// Announces the credits that `channel` has gathered, when the connection is idle; otherwise
    /// returns what is to be posted to the I/O thread.
    ///
    /// Never waits: whoever returns a buffer may hold the connection itself.
    pub(crate) fn announce(&self, channel: Arc<RemoteInputChannel>) -> Option<Command> {
        // A connection that is gone has failed its channels.
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
