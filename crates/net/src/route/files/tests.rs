//! Streams through a folder of this machine.

use super::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::time::Instant;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("kumiki-files-{name}-{}", std::process::id())))
    }

    fn files(&self) -> Files {
        Files::at(&self.0, LEAST_BYTES).unwrap()
    }

    /// Nothing is left, soon.
    fn is_empty(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(20);
        while self.0.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        !self.0.exists()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn address() -> SocketAddr {
    (Files::fresh_address().unwrap(), 1).into()
}

fn ear() -> (TcpListener, Target) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = Target::Port(listener.local_addr().unwrap());
    (listener, target)
}

/// Somebody who comes before long.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < until, "nobody comes: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn bytes_go_both_ways_through_files_and_nothing_is_left() {
    let scratch = Scratch::new("both");
    let (here, there) = (scratch.files(), scratch.files());
    let (listener, target) = ear();
    let listening = there.listen(address(), target).unwrap();
    let mut caller = UnixStream::from(here.open(&listening.address).unwrap());
    let (mut callee, _) = listener.accept().unwrap();
    // More than may lie unread.
    let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at ^ at >> 8) as u8).collect();
    let mut writer = caller.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        scope.spawn(|| {
            let mut back = callee.try_clone().unwrap();
            std::io::copy(&mut callee, &mut back).unwrap();
            back.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        caller.read_to_end(&mut came).unwrap();
        assert!(came == bytes, "{} bytes came", came.len());
    });
    drop((caller, writer, listening));
    here.settle(true, Duration::from_secs(10));
    there.settle(true, Duration::from_secs(10));
    drop((here, there));
    assert!(scratch.is_empty());
}

#[test]
fn what_was_written_arrives_though_the_process_that_wrote_it_has_ended() {
    let scratch = Scratch::new("survives");
    let (here, there) = (scratch.files(), scratch.files());
    let (listener, target) = ear();
    let listening = there.listen(address(), target).unwrap();
    let mut caller = UnixStream::from(here.open(&listening.address).unwrap());
    caller.write_all(&[7; 100_000]).unwrap();
    drop(caller);
    here.settle(false, Duration::from_secs(10));
    drop(here);
    let mut came = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut came).unwrap();
    assert_eq!(came, [7; 100_000]);
    drop((listening, there));
    assert!(scratch.is_empty());
}

#[test]
fn who_calls_where_nobody_listens_is_told_at_once() {
    let scratch = Scratch::new("nobody");
    let files = scratch.files();
    let mut caller = UnixStream::from(files.open(&address()).unwrap());
    assert_eq!(caller.read(&mut [0]).unwrap(), 0);
    // A folder in which nobody takes up what comes, as somebody has left it who was killed.
    let left = address();
    let folder = files.root().unwrap().make(&folder_name(&left)).unwrap();
    folder.create("pulse").unwrap();
    let begun = Instant::now();
    let mut caller = UnixStream::from(files.open(&left).unwrap());
    assert_eq!(caller.read(&mut [0]).unwrap(), 0);
    assert!(begun.elapsed() > Duration::from_secs(4) && begun.elapsed() < Duration::from_secs(20));
    // Who ends a job sweeps it away.
    files.sweep();
    assert!(files.root().unwrap().open(&folder_name(&left)).is_err());
    drop(files);
    assert!(scratch.is_empty());
}

#[test]
fn a_listener_that_others_have_removed_comes_back() {
    let scratch = Scratch::new("back");
    let files = scratch.files();
    let (listener, target) = ear();
    let listening = files.listen(address(), target).unwrap();
    let place = scratch.0.join(folder_name(&listening.address));
    let pulse = place.join("pulse");
    let comes = || {
        let until = Instant::now() + Duration::from_secs(20);
        while !pulse.exists() {
            assert!(Instant::now() < until, "it does not come back");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    comes();
    // A part of it, all of it, and what it lies in.
    std::fs::remove_file(&pulse).unwrap();
    comes();
    std::fs::remove_dir_all(&place).unwrap();
    comes();
    std::fs::remove_dir_all(&scratch.0).unwrap();
    comes();
    let here = scratch.files();
    let mut caller = UnixStream::from(here.open(&listening.address).unwrap());
    caller.write_all(b"here").unwrap();
    let mut came = [0; 4];
    listener.accept().unwrap().0.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"here");
    drop((caller, listening, here, files));
    assert!(scratch.is_empty());
}

#[test]
fn what_a_killed_run_had_left_at_the_same_port_was_in_the_way() {
    let scratch = Scratch::new("port");
    let files = scratch.files();
    let (listener, target) = ear();
    let at = "10.1.2.3:4567".parse().unwrap();
    let left = files.root().unwrap().make(&folder_name(&at)).unwrap();
    left.create("pulse").unwrap();
    left.make("c-00").unwrap().create("a.pulse").unwrap();
    let listening = files.listen(at, target).unwrap();
    let mut caller = UnixStream::from(files.open(&at).unwrap());
    caller.write_all(b"here").unwrap();
    let mut came = [0; 4];
    accept(&listener).read_exact(&mut came).unwrap();
    assert_eq!(&came, b"here");
    drop((caller, listening, left, files));
    assert!(scratch.is_empty());
}

#[test]
fn who_did_not_read_was_not_heard_either() {
    let scratch = Scratch::new("deaf");
    let files = scratch.files();
    let (listener, target) = ear();
    let listening = files.listen(address(), target).unwrap();
    let mut caller = UnixStream::from(files.open(&listening.address).unwrap());
    let (mut callee, _) = listener.accept().unwrap();
    let mut writer = caller.try_clone().unwrap();
    // More than all that is between them holds.
    let bytes = vec![7; 32 << 20];
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let wrote = writer.write_all(&bytes);
            let _ = writer.shutdown(Shutdown::Write);
            wrote
        });
        // Until no more of it is taken.
        let (mut before, mut quiet) = (0, 0);
        while quiet < 10 {
            std::thread::sleep(Duration::from_millis(50));
            let lies = held_in(&scratch.0);
            quiet = if lies > 0 && lies == before { quiet + 1 } else { 0 };
            before = lies;
        }
        assert!(!writing.is_finished());
        callee.write_all(b"here").unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut came = [0; 4];
        let heard = caller.read_exact(&mut came);
        // Whatever came of it, the others end.
        callee.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        callee.read_to_end(&mut all).unwrap();
        writing.join().unwrap().unwrap();
        heard.unwrap();
        assert!(came == *b"here" && all == bytes);
    });
    drop((caller, callee, writer, listening, files));
    assert!(scratch.is_empty());
}

/// Bytes that lie in files somewhere below.
fn held_in(place: &Path) -> u64 {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let held = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => held_in(&entry.path()),
        _ => entry.metadata().map_or(0, |data| data.len()),
    });
    held.sum()
}

#[test]
fn a_folder_that_was_made_anew_was_forgotten_by_the_next_call() {
    let scratch = Scratch::new("forgotten");
    let files = scratch.files();
    let (listener, target) = ear();
    let listening = files.listen(address(), target).unwrap();
    let pulse = scratch.0.join(folder_name(&listening.address)).join("pulse");
    let comes = |is_good: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(20);
        while !is_good() {
            assert!(Instant::now() < until, "it does not come back");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    comes(&|| pulse.exists());
    std::fs::remove_dir_all(&scratch.0).unwrap();
    comes(&|| pulse.exists());
    let mut caller = UnixStream::from(files.open(&listening.address).unwrap());
    caller.write_all(b"here").unwrap();
    let mut came = [0; 4];
    accept(&listener).read_exact(&mut came).unwrap();
    assert_eq!(&came, b"here");
    // A pulse of somebody else, in the place of its own, hinders it no more.
    let other = scratch.0.join("other");
    std::fs::write(&other, b"").unwrap();
    std::fs::rename(&other, &pulse).unwrap();
    comes(&|| std::fs::metadata(&pulse).is_ok_and(|data| data.len() == pulse::PULSE_BYTES as u64));
    drop((caller, listening, files));
    assert!(scratch.is_empty());
}

#[test]
fn a_folder_that_others_remove_meanwhile_is_made_anew() {
    let scratch = Scratch::new("anew");
    let (here, there) = (scratch.files(), scratch.files());
    std::fs::remove_dir(&scratch.0).unwrap();
    let (listener, target) = ear();
    let mut listening = there.listen(address(), target).unwrap();
    let key = there.publish(&mut listening).unwrap();
    assert_eq!(here.master().unwrap(), Some((listening.address, key)));
    let mut caller = UnixStream::from(here.open(&listening.address).unwrap());
    caller.write_all(b"here").unwrap();
    let mut came = [0; 4];
    listener.accept().unwrap().0.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"here");
    // What was killed before it had a name is swept away with it.
    drop(listening);
    let root = here.root().unwrap();
    root.create("master.l-00").unwrap();
    root.make("l-01").unwrap();
    drop((root, caller));
    here.sweep();
    drop((here, there));
    assert!(scratch.is_empty());
    // Whoever only cleans up makes nothing new.
    let late = scratch.files();
    std::fs::remove_dir(&scratch.0).unwrap();
    late.settle(true, Duration::from_secs(1));
    late.sweep();
    drop(late);
    assert!(!scratch.0.exists());
}

#[test]
fn whoever_calls_the_roll_is_found_and_there_is_one_at_a_time() {
    let scratch = Scratch::new("master");
    let (here, there) = (scratch.files(), scratch.files());
    assert_eq!(here.master().unwrap(), None);
    let name = UnixAddr::from_abstract_name(format!("kumiki-files-{}", std::process::id())).unwrap();
    let listener = UnixListener::bind_addr(&name).unwrap();
    let mut listening = there.listen(address(), Target::Machine(name)).unwrap();
    let key = there.publish(&mut listening).unwrap();
    let (found, known) = here.master().unwrap().unwrap();
    assert_eq!((found, known), (listening.address, key));
    let mut caller = UnixStream::from(here.open(&found).unwrap());
    caller.write_all(b"here").unwrap();
    let mut came = [0; 4];
    listener.accept().unwrap().0.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"here");
    let (_ear, target) = ear();
    let mut second = here.listen(address(), target).unwrap();
    let refused = here.publish(&mut second).unwrap_err().to_string();
    assert!(refused.contains("COUPLER_JOB_ID"), "{refused}");
    // What a run that was killed has left is no hindrance.
    let folder = here.root().unwrap();
    let stale = folder.create("stale").unwrap();
    folder::write_at(&stale, format!("{} {}\n", address(), "ab".repeat(32)).as_bytes(), 0).unwrap();
    drop(listening);
    assert_eq!(here.master().unwrap(), None);
    folder.rename("stale", MASTER).unwrap();
    here.publish(&mut second).unwrap();
    assert_eq!(here.master().unwrap().unwrap().0, second.address);
    drop((second, caller, folder));
    drop((here, there));
    assert!(scratch.is_empty());
}

#[test]
fn no_address_of_a_network_is_one_of_a_listener_in_files() {
    for network in ["[fd12:3456::2]:7", "[fe80::1]:7", "[2001:db8::1]:7", "10.0.0.1:7"] {
        let address = network.parse().unwrap();
        assert!(!Files::is_listener(&address), "{address}");
        assert_eq!(folder_name(&address), format!("l-{address}"));
    }
    let one = address();
    let other = SocketAddr::new(one.ip(), 2);
    assert!(Files::is_listener(&one) && folder_name(&one) != folder_name(&other));
    assert_ne!(Files::beside(one.ip()), one.ip());
}

#[test]
fn a_master_is_read_whole_or_not_at_all() {
    let good = format!("[fd00::2]:1 {}\n", "0f".repeat(32));
    assert_eq!(parse_master(&good), Some(("[fd00::2]:1".parse().unwrap(), [15; 32])));
    (0..good.len()).for_each(|cut| assert_eq!(parse_master(&good[..cut]), None));
    assert_eq!(parse_master(&good.replace("0f0f", "0fég")), None);
}
