//! The agent or the hub of joined programs in a process of its own: then the end of a rank, whatever ends it, is not the end of what
//! all others stand on, and a rank need not wait for them before it ends.
//!
//! A rank that finds nobody starts `kumiki agent --host`, from beside the library that it runs, and hands over the socket where others
//! come. That process leaves the rank's process group and ends by itself when nobody needs it. Until all have come it holds on to the rank: when that gives up, it
//! ends too. Where there is no such program, or one of another release, threads of the rank do it, as for other strangers.

use super::agent::HostedAgent;
use super::hub::{Gathering, HostedHub};
use super::Call;
use crate::auth::{JobId, Secret};
use crate::codec::{Reader, Writer};
use crate::environment;
use crate::os::descriptor::{self, Event};
use crate::os::{file, process, socket};
use crate::route::Route;
use crate::terms::Terms;
use crate::{Error, Result};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What the two speak, for the release that they are of.
const VERSION: &str = concat!("host 2 of ", env!("CARGO_PKG_VERSION"));
/// How long the process may take to say that it is there.
const START_MS: i32 = 5_000;
/// "There", "begin", and "all have come".
const THERE: u8 = 1;
const BEGIN: u8 = 2;
const GO: u8 = 3;

/// What a process keeps for others.
pub(super) enum Role<'a> {
    Agent(&'a UnixListener),
    Hub(&'a TcpListener, Terms),
}

/// The line to the process; when it is dropped before [`release`](Self::release) the process ends.
#[derive(Debug)]
pub(super) struct Host(UnixStream);

impl Host {
    /// Whether it runs.
    pub(super) fn is_running(&self) -> bool {
        descriptor::poll(&[(self.0.as_fd(), false)], 0)
            .is_ok_and(|ready| !ready[0].hung_up && !ready[0].readable)
    }

    /// All have come: it goes on without this process.
    pub(super) fn release(&self) {
        let _ = socket::send(self.0.as_fd(), &[GO]);
    }
}

/// Starts a process that keeps something for others; nothing where that cannot be.
pub(super) fn start(call: &Call, role: &Role<'_>) -> Option<Host> {
    // Some launchers end what their ranks have started as soon as those have ended: there a thread is better, for which the rank waits.
    if !call.joins_programs
        || environment::ends_with_its_launcher()
        || environment::choice("KUMIKI_HOSTING", &["auto", "thread"]).ok()? == Some("thread")
    {
        return None;
    }
    let (line, theirs) = UnixStream::pair().ok()?;
    let mut command = Command::new(file::own_command()?);
    command.args(["agent", "--host"]).stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    // Nothing is to be done between the two steps of starting it: so the memory of a large program is not copied, not even its tables.
    let mut child = command.spawn().ok()?;
    let (passed, terms) = match role {
        Role::Agent(listener) => (listener.as_fd(), None),
        Role::Hub(listener, terms) => (listener.as_fd(), Some(*terms)),
    };
    let writer = Writer::new(u8::from(terms.is_some())).text(VERSION).word(call.rank).word(call.ranks);
    let writer = writer.address(&call.master).long(call.job.0).fixed(call.secret.expose());
    let writer = call.hub_in_files.iter().fold(writer.flag(call.hub_in_files.is_some()), Writer::address);
    let writer = call.route.write(writer);
    let message = terms.unwrap_or_default().write(writer).finish();
    let sent =
        socket::send_message(line.as_fd(), &message, &[passed]).is_ok_and(|sent| sent == message.len());
    // It goes on in the background, and its first process ends at once. (Where nobody may wait for children, nobody need.)
    let heard =
        sent && descriptor::poll(&[(line.as_fd(), false)], START_MS).is_ok_and(|ready| ready[0].readable);
    let mut byte = [0];
    let there = heard && socket::receive(line.as_fd(), &mut byte, false) == Ok(1) && byte == [THERE];
    // Only now it begins: if it had taken too long, threads of this process would do the same.
    let there = there && socket::send(line.as_fd(), &[BEGIN]) == Ok(1);
    if !there {
        let _ = child.kill();
    }
    let _ = child.wait();
    there.then_some(Host(line))
}

/// What `kumiki agent --host` does: keeps what is handed over by standard input, until nobody needs it.
pub fn serve() -> Result<i32> {
    // What the program had open is none of ours: others may wait for its end.
    descriptor::close_from(3);
    // As many as may be: every rank of the machine, and streams through files, need some.
    let _ = descriptor::raise_limit();
    let line = crate::os::memory::duplicate(std::io::stdin().as_fd())?;
    // The path of a folder may be among it.
    let mut message = [0; 8 << 10];
    let wrong = || Error::Refused("agents of this kind are started by the ranks that need one".into());
    let (count, [passed, _]) =
        socket::receive_message(line.as_fd(), &mut message, true).map_err(|_| wrong())?;
    let passed = passed.ok_or_else(wrong)?;
    let mut reader = Reader::new(&message[..count]);
    let is_hub = reader.byte()? == 1;
    if reader.text()? != VERSION {
        return Err(Error::Refused("the rank is of another release".into()));
    }
    let (rank, ranks, master) = (reader.word()?, reader.word()?, reader.address()?);
    let (job, secret) = (JobId(reader.long()?), Secret::from_bytes(reader.fixed()?));
    let hub_in_files = if reader.flag()? { Some(reader.address()?) } else { None };
    let route = Route::read(&mut reader)?;
    let terms = Terms::read(&mut reader)?;
    reader.end()?;
    process::go_on_in_background()?;
    process::set_name(if is_hub { c"kumiki-hub" } else { c"kumiki-agent" });
    let stop = Arc::new(Event::new()?);
    let body: Box<dyn FnOnce() + Send> = if is_hub {
        let listener = TcpListener::from(passed);
        let ear = super::find_hub(&route, hub_in_files, &listener)?;
        let is_direct = matches!(route, Route::Direct);
        let hub = HostedHub::new(listener, Gathering { ranks, secret, job, terms, is_direct })?;
        let stop = stop.clone();
        Box::new(move || {
            hub.run(&stop);
            drop(ear);
        })
    } else {
        let call = Call {
            rank,
            ranks,
            master,
            secret,
            job,
            hub_apart: true,
            hub: None,
            joins_programs: true,
            starter_bytes: terms.starter_bytes,
            meeting_point: [0; 32],
            route: route.clone(),
            hub_in_files,
        };
        let agent = HostedAgent::new(&call, UnixListener::from(passed), stop.clone())?;
        Box::new(move || agent.run())
    };
    socket::send(line.as_fd(), &[THERE])?;
    if !hears(&line, BEGIN, || false)? {
        return Ok(1);
    }
    let thread = super::start_thread("kumiki-host", body)?;
    // It may end before that, because it is told to.
    let released = hears(&line, GO, || thread.is_finished())?;
    if !released {
        stop.raise();
    }
    drop(line);
    let _ = thread.join();
    route.settle(true);
    if is_hub {
        route.sweep();
    }
    Ok(0)
}

/// Waits for a word of the rank. False if it says something else, is gone, or need not say anything any more.
fn hears(line: &OwnedFd, word: u8, is_over: impl Fn() -> bool) -> Result<bool> {
    let mut byte = [0];
    loop {
        match socket::receive(line.as_fd(), &mut byte, false) {
            Ok(1) => return Ok(byte == [word]),
            Err(error) if error.would_block() && !is_over() => {
                descriptor::poll(&[(line.as_fd(), false)], 500)?;
            }
            _ => return Ok(false),
        }
    }
}
