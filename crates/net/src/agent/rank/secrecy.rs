//! Listens in while ranks meet that no launcher of ours started.

use super::bootstrap;
use crate::agent::strangers::{meet, Call, Gathering, Hosted, HostedHub};
use crate::auth::{JobId, Secret};
use crate::os::descriptor::Event;
use crate::os::time;
use crate::terms::Terms;
use crate::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// All that two sides said to each other, one entry a direction of a connection.
type Record = Arc<Mutex<Vec<Vec<u8>>>>;

/// Passes every connection on to `to`, and keeps what goes through.
fn listen_in(to: SocketAddr) -> (SocketAddr, Record) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, record) = (listener.local_addr().unwrap(), Record::default());
    let kept = record.clone();
    std::thread::spawn(move || {
        for caller in listener.incoming().flatten() {
            let Ok(called) = TcpStream::connect(to) else { continue };
            for (mut from, mut to) in [(&caller, &called), (&called, &caller)]
                .map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap()))
            {
                let record = kept.clone();
                std::thread::spawn(move || {
                    let index = record.lock().map(|mut all| (all.push(Vec::new()), all.len() - 1).1).unwrap();
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut buffer) {
                        record.lock().unwrap()[index].extend_from_slice(&buffer[..count]);
                        if to.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (address, record)
}

fn stranger(rank: u32, master: SocketAddr, secret: &Secret, job: JobId) -> Call {
    let node = [b"test".as_slice(), &std::process::id().to_le_bytes(), &rank.to_le_bytes()].concat();
    Call {
        rank,
        ranks: 2,
        master,
        secret: secret.duplicate(),
        job,
        hub_apart: true,
        hub: None,
        joins_programs: false,
        starter_bytes: 4096,
        meeting_point: *blake3::hash(&node).as_bytes(),
        route: crate::route::Route::Direct,
        hub_in_files: None,
    }
}

/// Comes, and goes again.
fn visit(call: &Call) -> Result<[u8; 32]> {
    let deadline_ms = time::now_ms() + 60_000;
    let mut hosted = Hosted::new()?;
    let (channel, _) = meet(call, &mut hosted, deadline_ms)?;
    let mut attachment = bootstrap::join(channel, crate::shm::board::Origin::Launcher, Some(deadline_ms))?;
    attachment.leave()?;
    hosted.wait();
    Ok(*attachment.secret.expose())
}

#[test]
fn a_hosted_start_up_writes_no_secret_to_a_network() {
    let mut bytes = [0; 32];
    crate::os::random_bytes(&mut bytes).unwrap();
    let (secret, job) = (Secret::from_bytes(bytes), JobId(0x0123_4567_89ab_cdef));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (master, record) = listen_in(listener.local_addr().unwrap());
    let terms = Terms::from_environment(4096).unwrap();
    let gathering = Gathering { ranks: 2, secret: secret.duplicate(), job, terms, is_direct: true };
    let hub = HostedHub::new(listener, gathering).unwrap();
    let stop = Event::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| hub.run(&stop));
        for rank in 0..2 {
            let call = stranger(rank, master, &secret, job);
            scope.spawn(move || assert_eq!(visit(&call).unwrap(), bytes, "they know it all the same"));
        }
    });
    let record = record.lock().unwrap();
    let said = |bytes: &[u8]| record.iter().any(|said| said.windows(bytes.len()).any(|part| part == bytes));
    assert!(record.len() >= 4 && said(b"KMKI") && said(&job.0.to_le_bytes()), "all is heard");
    for part in bytes.windows(8) {
        let hexadecimal: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
        let backwards: Vec<u8> = part.iter().rev().copied().collect();
        assert!(!said(part) && !said(&backwards), "the secret crosses the network");
        assert!(!said(hexadecimal.as_bytes()) && !said(hexadecimal.to_uppercase().as_bytes()));
    }
}
