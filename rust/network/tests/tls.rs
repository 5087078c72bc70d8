//! Goal: connections between hosts can be encrypted; what does not belong to the job is refused.
//! Method: environments with one identity exchange more than any buffer on the way holds, over
//! TCP, and peers that do not speak TLS are dropped while the exchange goes on.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use common::{Item, PATIENCE, Writer, channel, config, drain, gate, partition, reader};
use penstock_network::{EnvironmentConfig, Error, NetworkEnvironment, TlsIdentity};

/// An identity for tests; it protects nothing.
fn identity() -> TlsIdentity {
    TlsIdentity {
        certificate: include_bytes!("identity/certificate.der").into(),
        private_key: include_bytes!("identity/private_key.der").into(),
    }
}

fn encrypted(name: &str) -> NetworkEnvironment {
    let config = EnvironmentConfig {
        same_host_path: false,
        tls: Some(identity()),
        ..config(name)
    };
    NetworkEnvironment::new(config).expect("an environment")
}

#[test]
fn more_than_any_buffer_holds() {
    let (producer, consumer) = (encrypted("producer"), encrypted("consumer"));
    let partition = partition(&producer, 1, 3, 1);
    let descriptors: Vec<_> = (0..3)
        .map(|subpartition| channel(1, subpartition, Some(producer.address())))
        .collect();
    let gate = gate(&consumer, &descriptors);
    // A peer of no job, in the middle of it.
    let mut stranger = TcpStream::connect(producer.address()).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let record = |index: usize| vec![index as u8; [1, 70, 5_000, 60_000][index % 4]];
    let items = thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::new(&partition);
            for index in 0..3_000 {
                writer.emit(index % 3, &record(index)).unwrap();
            }
            writer.finish().unwrap();
            assert!(partition.wait_consumed(PATIENCE));
        });
        stranger.write_all(&[9; 96]).unwrap();
        let mut answer = Vec::new();
        // An alert, and the end; or a reset, for bytes of ours were not read.
        if stranger.read_to_end(&mut answer).is_ok() {
            assert!(answer.len() < 16, "{answer:?}");
        }
        drain(&mut reader(&consumer, &gate))
    });
    for channel in 0..3 {
        let received = items.iter().filter_map(|item| match item {
            Item::Record(at, bytes) if *at == channel => Some(bytes.clone()),
            _ => None,
        });
        let expected = (0..3_000).filter(|index| index % 3 == channel).map(record);
        assert!(received.eq(expected), "channel {channel} differs");
    }
    gate.close();
    partition.release();
    assert_eq!(consumer.available_segments(), consumer.total_segments());
}

#[test]
fn a_useless_identity_is_refused() {
    let config = EnvironmentConfig {
        tls: Some(TlsIdentity {
            private_key: Vec::new(),
            ..identity()
        }),
        ..config("useless")
    };
    assert!(matches!(
        NetworkEnvironment::new(config),
        Err(Error::Authentication(_))
    ));
}

#[test]
fn settings_are_printed_without_the_key() {
    assert_eq!(format!("{:?}", identity()), "TlsIdentity { .. }");
}
