//! Temporary files of plain blocks without header or type; the caller knows their sizes.
//!
//! Written or read blocks return to the caller, in order, for reuse.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::file_requests::{FileAccess, Requests, ends_inside};
use crate::io_manager::{ChannelId, IoManager};
use crate::sync::{Arc, Mutex, lock};
use crate::unique_buffer::UniqueBuffer;

/// The file of a channel and the blocks of pending requests.
struct Blocks {
    channel: ChannelId,
    file: Arc<Mutex<File>>,
    requests: Requests,
    returned: Arc<Mutex<VecDeque<UniqueBuffer>>>,
}

impl Blocks {
    fn new(channel: ChannelId, file: File, requests: Requests) -> Self {
        Self {
            channel,
            file: Arc::new(Mutex::new(file)),
            requests,
            returned: Arc::default(),
        }
    }

    fn run(
        &self,
        mut block: UniqueBuffer,
        act: impl FnOnce(&mut File, &mut UniqueBuffer) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (file, returned) = (Arc::clone(&self.file), Arc::clone(&self.returned));
        self.requests.run(move || {
            let result = act(&mut lock(&file), &mut block);
            if result.is_ok() {
                lock(&returned).push_back(block);
            }
            result
        })
    }

    fn returned(&self) -> Option<UniqueBuffer> {
        lock(&self.returned).pop_front()
    }

    /// Waits for pending requests and removes the file.
    fn close_and_delete(self) -> io::Result<()> {
        let done = self.requests.wait();
        done.and(std::fs::remove_file(self.channel.path()))
    }

    fn path(&self) -> &Path {
        self.channel.path()
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Blocks").field(&self.path()).finish()
    }
}

/// Appends blocks to a file.
#[derive(Debug)]
pub struct BlockChannelWriter {
    blocks: Blocks,
}

impl BlockChannelWriter {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn create(manager: &IoManager, channel: ChannelId, access: FileAccess) -> io::Result<Self> {
        let file = File::create_new(channel.path())?;
        let requests = Requests::new(access, manager.writer(&channel));
        Ok(Self {
            blocks: Blocks::new(channel, file, requests),
        })
    }

    /// Writes the filled part of a block.
    ///
    /// # Errors
    ///
    /// The error of an earlier request; of this one as well if it is synchronous.
    pub fn write_block(&self, block: UniqueBuffer) -> io::Result<()> {
        self.blocks.run(block, |file, block| {
            let size = block.size();
            file.write_all(&block.as_mut_slice()[..size])
        })
    }

    /// Returns a written block for reuse, if there is one.
    #[must_use]
    pub fn returned_block(&self) -> Option<UniqueBuffer> {
        self.blocks.returned()
    }

    /// Waits until all blocks are written.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn close(self) -> io::Result<ChannelId> {
        self.blocks.requests.wait()?;
        Ok(self.blocks.channel)
    }

    /// Waits until no request is pending and removes the file.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of the removal.
    pub fn close_and_delete(self) -> io::Result<()> {
        self.blocks.close_and_delete()
    }
}

/// Reads blocks of a file in order.
#[derive(Debug)]
pub struct BlockChannelReader {
    blocks: Blocks,
}

impl BlockChannelReader {
    /// Opens a written file.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn open(manager: &IoManager, channel: ChannelId, access: FileAccess) -> io::Result<Self> {
        let file = File::open(channel.path())?;
        let requests = Requests::new(access, manager.reader(&channel));
        Ok(Self {
            blocks: Blocks::new(channel, file, requests),
        })
    }

    /// Fills the whole of a block from the file.
    ///
    /// # Errors
    ///
    /// The error of an earlier request, such as a file that ends early; of this one as well if it
    /// is synchronous.
    pub fn read_block(&self, block: UniqueBuffer) -> io::Result<()> {
        self.blocks.run(block, |file, block| {
            let capacity = block.capacity();
            file.read_exact(block.as_mut_slice())
                .map_err(|error| ends_inside("block", error))?;
            block
                .set_size(capacity)
                .map_err(|error| io::Error::other(error.to_string()))
        })
    }

    /// Waits until every requested block is read.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn wait(&self) -> io::Result<()> {
        self.blocks.requests.wait()
    }

    /// Returns the next block that has been read, if there is one.
    #[must_use]
    pub fn returned_block(&self) -> Option<UniqueBuffer> {
        self.blocks.returned()
    }

    /// Waits until no request is pending.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn close(self) -> io::Result<()> {
        self.blocks.requests.wait()
    }

    /// Waits until no request is pending and removes the file.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of the removal.
    pub fn close_and_delete(self) -> io::Result<()> {
        self.blocks.close_and_delete()
    }
}

/// Reads a whole file into given blocks at once.
#[derive(Debug)]
pub struct BulkBlockChannelReader {
    reader: BlockChannelReader,
}

impl BulkBlockChannelReader {
    /// Opens a written file and requests all blocks of `blocks`.
    ///
    /// # Errors
    ///
    /// The error of the operating system, or of an earlier request, after which the file is removed.
    pub fn open(
        manager: &IoManager,
        channel: ChannelId,
        access: FileAccess,
        blocks: impl IntoIterator<Item = UniqueBuffer>,
    ) -> io::Result<Self> {
        let reader = BlockChannelReader::open(manager, channel, access)?;
        for block in blocks {
            if let Err(error) = reader.read_block(block) {
                // The file is removed as at the end; this error is the first one.
                return reader.close_and_delete().and(Err(error));
            }
        }
        Ok(Self { reader })
    }

    /// Waits for all blocks, removes the file and returns them, filled and in order.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of the removal.
    pub fn close_and_delete(self) -> io::Result<Vec<UniqueBuffer>> {
        let returned = Arc::clone(&self.reader.blocks.returned);
        self.reader.close_and_delete()?;
        let blocks = std::mem::take(&mut *lock(&returned));
        Ok(blocks.into())
    }
}
