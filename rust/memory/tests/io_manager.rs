//! Temporary files: names, order, errors that are kept, and nothing left behind.

#![cfg(not(feature = "loom"))]

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use penstock_memory::{
    BlockChannelReader, BlockChannelWriter, Buffer, BufferFileReader, BufferFileWriter,
    BulkBlockChannelReader, DataType, FileAccess, IoManager, UniqueBuffer,
};

/// A directory of the test's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("penstock-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn directories(&self) -> [PathBuf; 2] {
        [self.0.join("a"), self.0.join("b")]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Names are unique and take turns over the directories; an enumerator counts.
#[test]
fn names_take_turns() {
    let scratch = Scratch::new("names");
    let manager = IoManager::new(&scratch.directories()).unwrap();
    let (first, second) = (manager.create_channel(), manager.create_channel());
    assert_ne!(first.directory(), second.directory());
    assert_ne!(first.path(), second.path());
    let enumerated: Vec<_> = manager.create_channel_enumerator().take(3).collect();
    assert_eq!(enumerated[0].directory(), enumerated[2].directory());
    assert_ne!(enumerated[0].directory(), enumerated[1].directory());
    assert!(
        enumerated[2]
            .path()
            .to_str()
            .unwrap()
            .ends_with(".000002.channel")
    );
    assert!(IoManager::new(&[]).is_err());
}

/// Buffers come back in order, with their types, and the directories go with the manager.
#[test]
fn buffers_round_trip() {
    let scratch = Scratch::new("round-trip");
    let manager = IoManager::new(&scratch.directories()).unwrap();
    let writer =
        BufferFileWriter::create(&manager, manager.create_channel(), FileAccess::Asynchronous)
            .unwrap();
    for size in 0..300_usize {
        let kind = if size % 7 == 0 {
            DataType::EventBuffer
        } else {
            DataType::DataBuffer
        };
        writer
            .write(Buffer::from_bytes(vec![size as u8; size], kind))
            .unwrap();
    }
    let channel = writer.close().unwrap();
    let reader =
        BufferFileReader::open(&manager, channel.clone(), FileAccess::Asynchronous).unwrap();
    for size in 0..=300_usize {
        let (sender, receiver) = sync_channel(1);
        let callback = Box::new(move |buffer| sender.send(buffer).unwrap());
        reader
            .read_into(UniqueBuffer::unpooled(512), callback)
            .unwrap();
        match receiver.recv().unwrap() {
            Some(buffer) => {
                let buffer: Buffer = buffer;
                assert_eq!(buffer.as_slice(), vec![size as u8; size]);
                assert_eq!(buffer.data_type().is_event(), size % 7 == 0);
            }
            None => assert_eq!(size, 300),
        }
    }
    reader.close_and_delete().unwrap();
    assert!(!channel.path().exists());
    let directories: Vec<PathBuf> = manager
        .directories()
        .into_iter()
        .map(PathBuf::from)
        .collect();
    manager.close().unwrap();
    assert!(directories.iter().all(|directory| !directory.exists()));
}

/// A failed request is raised by the next call and again by closing; the file can still be deleted.
#[test]
fn errors_are_kept() {
    let scratch = Scratch::new("errors");
    let manager = IoManager::new(&scratch.directories()).unwrap();
    let channel = manager.create_channel();
    let writer =
        BufferFileWriter::create(&manager, channel.clone(), FileAccess::Asynchronous).unwrap();
    assert!(BufferFileWriter::create(&manager, channel.clone(), FileAccess::Asynchronous).is_err());
    writer
        .write(Buffer::from_bytes([1; 100], DataType::DataBuffer))
        .unwrap();
    writer.close().unwrap();
    let reader =
        BufferFileReader::open(&manager, channel.clone(), FileAccess::Asynchronous).unwrap();
    reader
        .read_into(
            UniqueBuffer::unpooled(10),
            Box::new(|_| panic!("too small")),
        )
        .unwrap();
    // The next call may come before the failure, closing cannot.
    let error = reader.close_and_delete().unwrap_err();
    assert!(error.to_string().contains("larger"), "{error}");
    assert!(!channel.path().exists());
}

/// Files that nobody deleted go with the manager.
#[test]
fn dropping_the_manager_removes_its_files() {
    let scratch = Scratch::new("drop");
    let manager = IoManager::new(&scratch.directories()).unwrap();
    let writer =
        BufferFileWriter::create(&manager, manager.create_channel(), FileAccess::Asynchronous)
            .unwrap();
    writer
        .write(Buffer::from_bytes([1], DataType::DataBuffer))
        .unwrap();
    let channel = writer.close().unwrap();
    assert!(channel.path().exists());
    drop(manager);
    assert!(!channel.path().exists());
    assert_eq!(fs::read_dir(scratch.0.join("a")).unwrap().count(), 0);
}

/// Blocks come back in order whoever does the requests, and those written can be used again.
#[test]
fn blocks_round_trip() {
    for access in [FileAccess::Synchronous, FileAccess::Asynchronous] {
        let scratch = Scratch::new(&format!("blocks-{access:?}"));
        let manager = IoManager::new(&scratch.directories()).unwrap();
        let writer =
            BlockChannelWriter::create(&manager, manager.create_channel(), access).unwrap();
        for number in 0..20_u8 {
            let mut block = UniqueBuffer::unpooled(64);
            block.append(&[number; 64]);
            writer.write_block(block).unwrap();
        }
        let channel = writer.close().unwrap();
        let reader = BlockChannelReader::open(&manager, channel.clone(), access).unwrap();
        for _ in 0..20 {
            reader.read_block(UniqueBuffer::unpooled(64)).unwrap();
        }
        reader.wait().unwrap();
        for number in 0..20_u8 {
            let mut block = reader.returned_block().unwrap();
            assert_eq!(block.as_mut_slice(), [number; 64]);
        }
        assert!(reader.returned_block().is_none());
        // The file ends: synchronously at once, else with the next call.
        let beyond = reader.read_block(UniqueBuffer::unpooled(64));
        assert_eq!(beyond.is_err(), access == FileAccess::Synchronous);
        assert!(reader.close().is_err());
        let blocks: Vec<_> = (0..10).map(|_| UniqueBuffer::unpooled(128)).collect();
        let bulk = BulkBlockChannelReader::open(&manager, channel.clone(), access, blocks).unwrap();
        let blocks = bulk.close_and_delete().unwrap();
        assert_eq!(blocks.len(), 10);
        assert!(!channel.path().exists());
    }
}

/// A channel outlives its manager only to be refused.
#[test]
fn closed_manager_refuses() {
    let scratch = Scratch::new("closed");
    let manager = IoManager::new(&scratch.directories()).unwrap();
    let access = FileAccess::Asynchronous;
    let writer = BlockChannelWriter::create(&manager, manager.create_channel(), access).unwrap();
    manager.close().unwrap();
    assert!(writer.write_block(UniqueBuffer::unpooled(8)).is_err());
    assert!(
        writer.close().is_ok(),
        "nothing was begun and nothing failed"
    );
}
