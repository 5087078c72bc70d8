//! Goal: any split of the byte stream gives the same records (B-1, B-8, B-9, B-10).
//! Method: random records are framed, cut at random places and fed to a deserializer.

use proptest::prelude::*;

use penstock_network::Error;
use penstock_network::framing::{
    FramingLimits, RecordDeserializer, RecordSerializer, Records, SerializationResult,
    SpillDirectories,
};

fn limits() -> FramingLimits {
    FramingLimits {
        spill_threshold_bytes: 100 << 10,
        ..FramingLimits::default()
    }
}

fn framed(records: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for record in records {
        stream.extend_from_slice(&(record.len() as u32).to_be_bytes());
        stream.extend_from_slice(record);
    }
    stream
}

/// Feeds one buffer and appends the records it gives.
fn feed(deserializer: &mut RecordDeserializer, buffer: &[u8], records: &mut Vec<Vec<u8>>) {
    let range = deserializer.feed(buffer).expect("a well-formed stream");
    records.extend(deserializer.spanning().map(<[u8]>::to_vec));
    let (first, mut rest) = (records.len(), &buffer[range.clone()]);
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (payload, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
        records.push(payload.to_vec());
        rest = tail;
    }
    assert!(rest.is_empty(), "the region consists of whole records");
    assert!(Records::new(&buffer[range]).eq(records[first..].iter()));
}

fn pieces<'a>(mut stream: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (piece, rest) = stream.split_at((*size).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

/// Records of many lengths, some of which repeat themselves.
fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let sizes = prop_oneof![
        4 => 0_usize..12,
        3 => 0_usize..300,
        1 => 0_usize..40_000,
        1 => 100_000_usize..130_000,
    ];
    prop::collection::vec((sizes, any::<u8>(), 1_usize..5), 0..8).prop_map(|shapes| {
        let mut records = Vec::new();
        for (size, seed, times) in shapes {
            let record: Vec<u8> = (0..size).map(|at| (at * 7) as u8 ^ seed).collect();
            records.resize(records.len() + times, record);
        }
        records
    })
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    let sizes = prop_oneof![1_usize..6, 1_usize..200, 1_usize..40_000];
    prop::collection::vec(sizes, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// B-8.
    #[test]
    fn any_split_gives_the_same_records(records in records(), cuts in cuts()) {
        let stream = framed(&records);
        let mut deserializer = RecordDeserializer::new(limits());
        let mut got = Vec::new();
        for piece in pieces(&stream, &cuts) {
            feed(&mut deserializer, piece, &mut got);
        }
        prop_assert!(!deserializer.has_pending());
        prop_assert!(got == records);
    }

    /// B-9: what is unconsumed, replayed in front of the rest, gives the same records.
    #[test]
    fn unconsumed_bytes_can_be_replayed(
        records in records(),
        cuts in cuts(),
        stop in any::<prop::sample::Index>(),
    ) {
        let stream = framed(&records);
        let pieces = pieces(&stream, &cuts);
        let stop = stop.index(pieces.len() + 1);
        let mut first = RecordDeserializer::new(limits());
        let mut got = Vec::new();
        for piece in &pieces[..stop] {
            feed(&mut first, piece, &mut got);
        }
        let unconsumed = first.unconsumed().expect("readable");
        let mut second = RecordDeserializer::new(limits());
        feed(&mut second, &unconsumed, &mut got);
        for piece in &pieces[stop..] {
            feed(&mut second, piece, &mut got);
            feed(&mut first, piece, &mut Vec::new());
        }
        prop_assert!(got == records);
        // Looking did not disturb the first one.
        prop_assert!(!first.has_pending());
    }

    /// B-1: the bytes that a serializer writes do not depend on the sizes of the buffers.
    #[test]
    fn buffer_sizes_do_not_change_the_bytes(records in records(), size in 1_usize..5000) {
        let mut serializer = RecordSerializer::new();
        let mut stream = Vec::new();
        let mut buffer = vec![0; size];
        let mut used = 0;
        for record in &records {
            serializer.add_record(record).expect("nothing pending");
            loop {
                let (result, count) = serializer.copy_to(&mut buffer[used..]);
                used += count;
                if result.is_full_buffer() {
                    stream.extend_from_slice(&buffer[..used]);
                    used = 0;
                }
                if result.is_full_record() {
                    break;
                }
            }
        }
        stream.extend_from_slice(&buffer[..used]);
        prop_assert!(stream == framed(&records));
    }

    /// Garbage gives records or an error, never a panic or an oversized allocation.
    #[test]
    fn garbage_does_no_harm(
        garbage in prop::collection::vec(any::<u8>(), 0..2000),
        cuts in cuts(),
    ) {
        let mut deserializer =
            RecordDeserializer::new(FramingLimits { max_record_bytes: 1 << 16, ..limits() });
        for piece in pieces(&garbage, &cuts) {
            if deserializer.feed(piece).is_err() {
                break;
            }
        }
    }
}

/// B-2, B-3: an exact fill asks for no further buffer, and a pending record must be finished first.
#[test]
fn the_serializer_tells_how_far_it_came() {
    let mut serializer = RecordSerializer::new();
    assert!(!serializer.has_serialized_data());
    serializer.add_record(b"12345678").unwrap();
    assert!(matches!(
        serializer.add_record(b"x"),
        Err(Error::IllegalState(_))
    ));
    let mut buffer = [0; 6];
    let (result, count) = serializer.copy_to(&mut buffer);
    assert_eq!(
        (result, count),
        (SerializationResult::PartialRecordMemorySegmentFull, 6)
    );
    assert_eq!(buffer, [0, 0, 0, 8, b'1', b'2']);
    let (result, count) = serializer.copy_to(&mut buffer);
    assert_eq!(
        (result, count),
        (SerializationResult::FullRecordMemorySegmentFull, 6)
    );
    serializer.add_record(b"").unwrap();
    let (result, count) = serializer.copy_to(&mut buffer);
    assert_eq!((result, count), (SerializationResult::FullRecord, 4));
}

/// A length outside the limits is a corrupt stream, wherever its bytes are cut.
#[test]
fn impossible_lengths_are_refused() {
    for length in [-1_i32, i32::MIN, 1001] {
        for cut in 0..4 {
            let limits = FramingLimits {
                max_record_bytes: 1000,
                ..limits()
            };
            let mut deserializer = RecordDeserializer::new(limits);
            let bytes = length.to_be_bytes();
            let fed = deserializer
                .feed(&bytes[..cut])
                .and_then(|_| deserializer.feed(&bytes[cut..]))
                .unwrap_err();
            assert!(matches!(fed, Error::CorruptStream(_)), "{fed:?}");
        }
    }
}

/// B-10: a spilled record leaves nothing on disk, not even while it is being gathered.
#[test]
fn spill_files_have_no_name() {
    let directory = std::env::temp_dir().join(format!("penstock-spill-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let limits = FramingLimits {
        spill_directories: SpillDirectories::new(vec![directory.clone()]),
        ..limits()
    };
    let entries = || std::fs::read_dir(&directory).unwrap().count();
    let record = vec![5; 300_000];
    let stream = framed(std::slice::from_ref(&record));
    let mut deserializer = RecordDeserializer::new(limits.clone());
    deserializer.feed(&stream[..200_000]).unwrap();
    assert!(deserializer.has_pending());
    assert_eq!(entries(), 0);
    deserializer.feed(&stream[200_000..]).unwrap();
    assert!(deserializer.spanning() == Some(&record[..]));
    assert_eq!(entries(), 0);
    deserializer.clear();
    // A directory that cannot be used is reported with its name when it is the last one.
    std::fs::remove_dir(&directory).unwrap();
    let limits = FramingLimits {
        spill_directories: SpillDirectories::new(vec![directory]),
        ..limits
    };
    let error = RecordDeserializer::new(limits)
        .feed(&stream[..10])
        .unwrap_err();
    assert!(
        matches!(&error, Error::Io(text) if text.contains("penstock-spill")),
        "{error:?}"
    );
}

/// B-10: files are used again, and no record sees what another one has left there.
#[test]
fn spill_files_are_shared_in_turn() {
    let limits = limits();
    let mut first = RecordDeserializer::new(limits.clone());
    let mut second = RecordDeserializer::new(limits);
    for (round, length) in [700_000, 200_000, 300_000].into_iter().enumerate() {
        let records = [vec![1 + round as u8; length], vec![100; length - 50_000]];
        let streams = records.clone().map(|record| framed(&[record]));
        for half in 0..2 {
            for (deserializer, stream) in [&mut first, &mut second].into_iter().zip(&streams) {
                let (front, back) = stream.split_at(150_000);
                deserializer.feed([front, back][half]).unwrap();
            }
        }
        assert!(first.spanning() == Some(&records[0][..]));
        assert!(second.spanning() == Some(&records[1][..]));
        // The next record of the second begins while its last one is still being read.
        second.feed(&streams[0][..150_000]).unwrap();
        assert_eq!(second.unconsumed().unwrap(), streams[0][..150_000]);
        second.clear();
    }
}
