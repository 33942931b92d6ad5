//! Where the ranks of several launchers meet: the hub of their world, for the process that has started the launchers.

use super::hub::{Gathering, HostedHub};
use super::job_id;
use super::portfile::Portfile;
use crate::agent::node::port;
use crate::auth::Secret;
use crate::environment;
use crate::os::{self, time};
use crate::terms::Terms;
use crate::{Error, Result};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;

/// What the ranks are given; the rest is as the environment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Ranks of all parts together.
    pub ranks: u32,
    /// Starter memory of each.
    pub starter_bytes: u64,
    /// The most memory of each for `malloc` and data structures.
    pub pool_bytes: Option<u64>,
}

/// How a world has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit code for it.
    pub code: i32,
    /// The rank that was lost first, if one was.
    pub lost: Option<u32>,
}

/// The hub of a job in several parts.
pub struct Meeting {
    hosted: HostedHub,
    portfile: Portfile,
    continues_on_loss: bool,
    failure: Option<Failure>,
}

impl std::fmt::Debug for Meeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meeting({:?})", self.portfile)
    }
}

impl Meeting {
    /// Listens for ranks, in the network of `KUMIKI_NET` if it is set, otherwise on this machine only.
    pub fn new(settings: Settings) -> Result<Meeting> {
        let ip = match environment::text("KUMIKI_NET")? {
            Some(_) => environment::reached_address()?,
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let listener = port::listen(ip)?;
        let master = listener.local_addr().map_err(|error| Error::from_io("getsockname", &error))?;
        let mut secret = [0; 32];
        os::random_bytes(&mut secret)?;
        let portfile = Portfile::new(settings.ranks, master.to_string(), &secret);
        let key = portfile.key();
        let mut terms = Terms::from_environment(settings.starter_bytes)?;
        terms.starter_bytes = settings.starter_bytes;
        terms.pool_bytes = settings.pool_bytes.unwrap_or(terms.pool_bytes);
        let gathering = Gathering {
            ranks: settings.ranks,
            secret: Secret::from_bytes(key),
            job: job_id(&key, &portfile.master),
            terms,
            is_direct: true,
        };
        let continues_on_loss = terms.continues_on_loss();
        let hosted = HostedHub::new(listener, gathering)?;
        Ok(Meeting { hosted, portfile, continues_on_loss, failure: None })
    }

    /// What the ranks must know.
    pub fn portfile(&self) -> &Portfile {
        &self.portfile
    }

    /// Whether the others go on when a rank is lost.
    pub fn continues_on_loss(&self) -> bool {
        self.continues_on_loss
    }

    /// Serves the ranks until the other descriptor can be read (true) or it is so late; at most one event.
    pub fn serve(&mut self, other: BorrowedFd<'_>, until_ms: u64) -> Result<bool> {
        let (other, over) = self.hosted.step(other, until_ms)?;
        if self.failure.is_none() {
            self.failure = self.hosted.hub.failure().map(|(code, lost)| Failure { code, lost });
        }
        if over.is_some() {
            // Ranks may finalize and initialise again.
            self.hosted.renew();
        }
        Ok(other)
    }

    /// How the first world that failed did so.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The ranks that others wait for; none if nobody has come, or everybody has.
    pub fn missing(&self) -> Vec<u32> {
        self.hosted.hub.missing()
    }

    /// Ends the world: its ranks are told why.
    pub fn end(&mut self, code: i32, why: String) {
        self.hosted.hub.end(code, why, time::now_ms());
    }

    /// Tells the ranks that the user ends the job, without a report.
    pub fn interrupt(&mut self, signal: i32) {
        self.hosted.hub.interrupt(signal, crate::agent::hub::GRACE_MS, time::now_ms());
    }

    /// Reports who waits for whom.
    pub fn survey(&mut self) {
        self.hosted.hub.survey(time::now_ms());
    }

    /// Nobody was listened to for a while: that was not the ranks' fault.
    pub fn excuse_silence(&mut self) {
        self.hosted.hub.excuse_silence(time::now_ms());
    }
}
