//! Requests of other threads to the I/O thread.

use super::{IoThread, schedule};
use crate::gate::RemoteInputChannel;
use crate::sync::{Arc, Ordering};
use crate::transport::Command;
use crate::transport::backstop::Backstop;
use crate::transport::connection::Side;
use crate::transport::link::Link;
use crate::transport::outbound::Outbound;
use crate::transport::server::ServerReaders;
use crate::wire::Message;

impl IoThread {
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::RequestPartition(channel) => self.request(channel),
            Command::AnnounceCredit(channel) => {
                let credit = channel.take_credits();
                if credit > 0 {
                    let receiver = channel.id;
                    self.send_for(&channel, &Message::AddCredit { credit, receiver });
                }
            }
            Command::WatchCredit(channel) => self.backstop.watch_credit(channel),
            Command::AnnounceBufferSize(channel, bytes) => {
                let message = Message::NewBufferSize {
                    size: i32::try_from(bytes).unwrap_or(i32::MAX),
                    receiver: channel.id,
                };
                self.send_for(&channel, &message);
            }
            Command::Resume(channels) => {
                for channel in channels {
                    let receiver = channel.id;
                    self.send_for(&channel, &Message::ResumeConsumption { receiver });
                }
            }
            Command::Cancel(channel) => self.cancel(&channel),
            Command::SendTaskEvent(channel, event) => {
                let message = Message::TaskEventRequest {
                    event,
                    partition: Box::new(channel.partition_id),
                    receiver: channel.id,
                };
                self.send_for(&channel, &message);
            }
            Command::Transmit(token) => {
                if let Some(connection) = self.connections.get(&token) {
                    schedule(&mut self.scheduled, &mut connection.lock());
                }
            }
            Command::Attach {
                connection,
                request,
                partition,
            } => {
                self.with_readers(connection, |readers, outbound| {
                    readers.attach(&request.receiver, partition, outbound);
                });
            }
            Command::Attend(channel) => self.attend(&channel),
            Command::Watch(token) => {
                if let Some(connection) = self.connections.get(&token) {
                    self.backstop.watch(&mut connection.lock());
                }
            }
            Command::Close => self.closing = true,
        }
    }

    pub(super) fn with_readers(
        &mut self,
        token: usize,
        act: impl FnOnce(&mut ServerReaders, &mut Outbound),
    ) {
        let Some(connection) = self.connections.get(&token) else {
            return;
        };
        let connection = &mut *connection.lock();
        if let Side::Server(readers) = &mut connection.side {
            act(readers, &mut connection.outbound);
            schedule(&mut self.scheduled, connection);
        }
    }

    /// Sends a message of a channel, if its connection still has it.
    fn send_for(&mut self, channel: &RemoteInputChannel, message: &Message) {
        let token = channel.connection.load(Ordering::Relaxed);
        let Some(connection) = self.connections.get(&token) else {
            return;
        };
        let mut connection = connection.lock();
        if let Side::Client(channels) = &connection.side
            && channels.contains(&channel.id)
        {
            connection.send(message);
            schedule(&mut self.scheduled, &mut connection);
        }
    }

    fn cancel(&mut self, channel: &RemoteInputChannel) {
        let token = channel.connection.load(Ordering::Relaxed);
        let Some(connection) = self.connections.get(&token) else {
            return;
        };
        let mut connection = connection.lock();
        if let Side::Client(channels) = &mut connection.side
            && channels.remove(&channel.id)
        {
            // The connection stays for later channels, until the other side closes it.
            connection.send(&Message::CancelPartitionRequest {
                receiver: channel.id,
            });
            Backstop::on_left(&mut connection, &mut self.scheduled);
        }
    }

    fn request(&mut self, channel: Arc<RemoteInputChannel>) {
        if channel.is_released() {
            return;
        }
        let token = match self.clients.get(&channel.address) {
            Some(&token) => token,
            None => match self.connect(channel.address) {
                Ok(token) => token,
                Err(error) => {
                    channel.on_error(error);
                    return;
                }
            },
        };
        let Some(shared) = self.connections.get(&token) else {
            return;
        };
        let mut connection = shared.lock();
        channel.connection.store(token, Ordering::Relaxed);
        channel.link(Link::new(shared));
        connection.send(&Message::PartitionRequest(channel.partition_request()));
        if let Side::Client(channels) = &mut connection.side {
            channels.insert(Arc::clone(&channel));
        }
        schedule(&mut self.scheduled, &mut connection);
        drop(connection);
        self.attend(&channel);
    }

    /// Puts the reader of a channel's gate in line for arrivals on the channel's connection.
    fn attend(&mut self, channel: &RemoteInputChannel) {
        let token = channel.connection.load(Ordering::Relaxed);
        let (Some(shared), Some(waiting)) = (self.connections.get(&token), channel.waiting())
        else {
            return;
        };
        let attended = shared.lock().attend(shared, &waiting);
        if let Err(error) = attended {
            self.drop_connection(token, &error);
        }
    }
}
