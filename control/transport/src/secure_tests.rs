// SPDX-License-Identifier: Apache-2.0
//! Two ends over the loopback interface: who is let in, and that bytes arrive as they were sent.

#![allow(clippy::unwrap_used)]

use super::*;
use std::thread;

fn port(listener: &SecureListener) -> String {
    format!("127.0.0.1:{}", listener.listener.local_addr().unwrap().port())
}

/// A listener that admits one guest and sends back what it hears.
fn echo(secret: &Secret) -> (String, thread::JoinHandle<io::Result<u64>>) {
    let mut listener = SecureListener::bind(secret.clone()).unwrap();
    let address = port(&listener);
    let server = thread::spawn(move || {
        let Connection { mut reader, mut writer, .. } = listener.accept()?.admit()?;
        let (mut buffer, mut total) = (vec![0; 10_000], 0);
        loop {
            match reader.receive(&mut buffer)? {
                0 => return Ok(total),
                bytes => {
                    writer.send(&buffer[..bytes])?;
                    total += bytes as u64;
                }
            }
        }
    });
    (address, server)
}

#[test]
fn bytes_arrive_whole_across_message_limits_and_impatient_reads() {
    let secret = Secret::generate().unwrap();
    let (address, server) = echo(&secret);
    let Connection { mut reader, mut writer, .. } = dial(&address, &secret).unwrap();
    reader.set_timeout(Some(Duration::from_millis(1))).unwrap();
    let sent: Vec<u8> = (0..200_000u32).map(|i| (i * 7 + (i >> 8)).to_le_bytes()[0]).collect();
    let copy = sent.clone();
    let sender = thread::spawn(move || {
        for part in copy.chunks(70_001) {
            thread::sleep(Duration::from_millis(5));
            writer.send(part).unwrap();
        }
        writer
    });
    let (mut got, mut buffer) = (Vec::new(), [0; 3001]);
    let until = Instant::now() + Duration::from_secs(20);
    while got.len() < sent.len() && Instant::now() < until {
        match reader.receive(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => got.extend_from_slice(&buffer[..bytes]),
            Err(error) => assert!(crate::is_waiting(&error), "{error}"),
        }
    }
    assert!(got == sent);
    sender.join().unwrap().end();
    assert_eq!(server.join().unwrap().unwrap(), sent.len() as u64);
}

#[test]
fn a_wrong_secret_is_turned_away_at_both_ends() {
    let (address, server) = echo(&Secret::generate().unwrap());
    assert!(dial(&address, &Secret::generate().unwrap()).is_err());
    let error = server.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
}

#[test]
fn a_guest_that_says_nothing_is_sent_away_in_time() {
    let (address, server) = echo(&Secret::generate().unwrap());
    let begun = Instant::now();
    let _silent = TcpStream::connect(address).unwrap();
    assert!(server.join().unwrap().is_err());
    assert!(begun.elapsed() < HANDSHAKE_LIMIT * 2);
}

/// The first message of a dialer that knows the secret.
fn recorded(secret: &Secret) -> Vec<u8> {
    let wire = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, secret) = (wire.local_addr().unwrap().to_string(), secret.clone());
    let dialer = thread::spawn(move || dial(&address, &secret).is_err());
    let (mut stream, _) = wire.accept().unwrap();
    let mut first = vec![0; 2];
    stream.read_exact(&mut first).unwrap();
    first.resize(2 + usize::from(u16::from_be_bytes([first[0], first[1]])), 0);
    stream.read_exact(&mut first[2..]).unwrap();
    drop(stream);
    assert!(dialer.join().unwrap());
    first
}

#[test]
fn who_has_recorded_a_first_message_is_sent_away_in_time() {
    let secret = Secret::generate().unwrap();
    let first = recorded(&secret);
    for last in [&[][..], &[0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]] {
        let mut listener = SecureListener::bind(secret.clone()).unwrap();
        let mut stranger = TcpStream::connect(port(&listener)).unwrap();
        stranger.write_all(&first).unwrap();
        stranger.write_all(last).unwrap();
        let begun = Instant::now();
        assert!(listener.accept().unwrap().admit().is_err());
        let limit = if last.is_empty() { HANDSHAKE_LIMIT * 2 } else { HANDSHAKE_LIMIT / 2 };
        assert!(begun.elapsed() < limit);
        assert_eq!(listener.strangers.load(Ordering::Acquire), 0);
    }
}

#[test]
fn what_travels_is_not_what_was_said() {
    let secret = Secret::generate().unwrap();
    let wire = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = wire.local_addr().unwrap().to_string();
    let listener = SecureListener::bind(secret.clone()).unwrap();
    let real = port(&listener);
    // Someone in between who passes everything on and keeps what the dialer said.
    let between = thread::spawn(move || {
        let (mut left, _) = wire.accept().unwrap();
        let mut right = TcpStream::connect(real).unwrap();
        let (mut back, mut forth) = (right.try_clone().unwrap(), left.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut back, &mut forth));
        let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(bytes @ 1..) = left.read(&mut buffer) {
            kept.extend_from_slice(&buffer[..bytes]);
            right.write_all(&buffer[..bytes]).unwrap();
        }
        kept
    });
    let mut listener = listener;
    let server = thread::spawn(move || {
        let mut line = listener.accept().unwrap().admit().unwrap();
        let mut buffer = [0; 64];
        let bytes = line.reader.receive(&mut buffer).unwrap();
        buffer[..bytes].to_vec()
    });
    let mut line = dial(&address, &secret).unwrap();
    line.writer.send(b"the memory of a job").unwrap();
    assert_eq!(server.join().unwrap(), b"the memory of a job");
    line.writer.end();
    let kept = between.join().unwrap();
    assert!(!kept.windows(6).any(|window| window == b"memory"));
}

#[test]
fn a_patient_line_outlives_a_peer_that_takes_nothing_for_long() {
    let secret = Secret::generate().unwrap();
    let mut listener = SecureListener::bind(secret.clone()).unwrap();
    let address = port(&listener);
    let bytes = 64 << 20; // more than the buffers of both ends hold
    let slow = thread::spawn(move || {
        let Connection { mut reader, .. } = listener.accept().unwrap().admit().unwrap();
        thread::sleep(SILENCE_MAX + Duration::from_secs(4));
        let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
        while total < bytes {
            match reader.receive(&mut buffer).unwrap() {
                0 => break,
                got => total += got,
            }
        }
        total
    });
    let Connection { mut writer, .. } = dial(&address, &secret).unwrap();
    writer.set_timeout(SILENCE_MAX * 3).unwrap();
    let part = vec![7; 1 << 20];
    for _ in 0..bytes / part.len() {
        writer.send(&part).unwrap();
    }
    assert_eq!(slow.join().unwrap(), bytes);
}
