//! Goal: memory that others may map is theirs to read and nothing else, and maps what is safe only.
//! Method: both ends in one process, which maps the same pages twice.
// Miri knows no files without names.
#![cfg(not(any(feature = "loom", miri)))]

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use penstock_memory::{
    DataType, ForeignFlag, ForeignMemory, LocalPoolOptions, NetworkBufferPool, SharedFlag,
    SharedMemory,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

const PAGE: u64 = 4 << 10;

fn pool(segment_bytes: usize) -> std::sync::Arc<NetworkBufferPool> {
    NetworkBufferPool::new_shared(4, segment_bytes, Duration::from_secs(1)).unwrap()
}

#[test]
fn others_read_what_is_in_a_buffer() {
    let pool = pool(1000);
    let memory = pool.shared_memory().unwrap();
    let foreign = ForeignMemory::map(memory.descriptor()).unwrap();
    let local = pool
        .create_buffer_pool(LocalPoolOptions::new(4, 4))
        .unwrap();
    let mut buffers = Vec::new();
    for value in 1..=4 {
        let mut unique = local.request_buffer().unwrap().unwrap();
        unique.as_mut_slice().fill(value);
        unique.set_size(1000).unwrap();
        buffers.push(unique.into_buffer(DataType::DataBuffer));
    }
    for (value, buffer) in (1..=4).zip(&buffers) {
        let offset = memory.offset_of(buffer).unwrap() as u64;
        let mut copy = [0; 1000];
        assert!(foreign.copy_to(offset, &mut copy));
        assert_eq!(copy, [value; 1000]);
        let slice = buffer.read_only_slice(10, 20).unwrap();
        assert_eq!(memory.offset_of(&slice), Some(offset as usize + 10));
    }
    assert_eq!(memory.offset_of(&[1, 2, 3]), None);
}

#[test]
fn every_byte_is_copied_wherever_it_lies() {
    let pool = pool(PAGE as usize);
    let local = pool
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    let mut unique = local.request_buffer().unwrap().unwrap();
    let bytes: Vec<u8> = (0..PAGE).map(|index| (index % 251) as u8).collect();
    unique.append(&bytes);
    let buffer = unique.into_buffer(DataType::DataBuffer);
    let memory = pool.shared_memory().unwrap();
    let foreign = ForeignMemory::map(memory.descriptor()).unwrap();
    let start = memory.offset_of(&buffer).unwrap();
    for offset in 0..40 {
        for length in 0..100 {
            let mut copy = vec![0; length + 1];
            let (_, into) = copy.split_at_mut(offset % 2);
            let into = &mut into[..length];
            assert!(foreign.copy_to((start + offset) as u64, into));
            assert_eq!(
                *into,
                bytes[offset..offset + length],
                "{length} at {offset}"
            );
        }
    }
}

#[test]
fn private_pools_share_nothing() {
    let pool = NetworkBufferPool::new(4, 1000, Duration::from_secs(1)).unwrap();
    assert!(pool.shared_memory().is_none());
    let pool = self::pool(1000);
    pool.destroy();
    assert!(pool.shared_memory().is_none());
}

#[test]
fn what_was_mapped_outlives_its_owner() {
    let memory = SharedMemory::create(1).unwrap();
    let foreign = ForeignMemory::map(memory.descriptor()).unwrap();
    drop(memory);
    let mut copy = [1; PAGE as usize];
    assert!(foreign.copy_to(0, &mut copy));
    assert_eq!(copy, [0; PAGE as usize]);
}

#[test]
fn copies_stay_inside() {
    let memory = SharedMemory::create(PAGE as usize).unwrap();
    let foreign = ForeignMemory::map(memory.descriptor()).unwrap();
    let mut two = [0; 2];
    assert!(foreign.copy_to(PAGE - 2, &mut two));
    assert!(foreign.copy_to(PAGE, &mut []));
    for offset in [PAGE - 1, PAGE, PAGE + 1, u64::MAX, u64::MAX - 1] {
        assert!(!foreign.copy_to(offset, &mut two), "{offset}");
    }
}

#[test]
fn a_flag_is_seen_and_stays() {
    let flag = SharedFlag::create().unwrap();
    let foreign = ForeignFlag::map(flag.descriptor()).unwrap();
    assert!(!foreign.is_raised());
    flag.raise();
    drop(flag);
    assert!(foreign.is_raised());
}

#[test]
fn nobody_else_writes_or_cuts_it() {
    let memory = SharedMemory::create(1).unwrap();
    let mut file = File::from(memory.descriptor().try_clone_to_owned().unwrap());
    assert!(file.write(&[1]).is_err());
    assert!(file.set_len(0).is_err());
    assert!(file.set_len(2 * PAGE).is_err());
}

#[test]
fn only_what_cannot_be_cut_off_is_mapped() {
    let file = |bytes, seals| {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    assert!(ForeignMemory::map(file(PAGE, SealFlags::SHRINK).as_fd()).is_ok());
    for (bytes, seals) in [
        (PAGE, SealFlags::empty()),
        (PAGE, SealFlags::GROW),
        (0, SealFlags::SHRINK),
        (PAGE - 1, SealFlags::SHRINK),
    ] {
        let error = ForeignMemory::map(file(bytes, seals).as_fd()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{bytes} {seals:?}");
    }
    let device = File::open("/dev/zero").unwrap();
    let error = ForeignMemory::map(device.as_fd()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}
