//! The hub of a job as a thread of the process of rank 0, for jobs that no launcher of ours started.

use super::greet::Greeting;
use super::hub::{Effect, Hub, Plan};
use super::link::Link;
use super::protocol::{Launch, Listen, ToHub};
use super::stranger::Call;
use crate::auth::{JobId, Secret};
use crate::environment;
use crate::os::descriptor::{self, Event};
use crate::os::{socket, time};
use crate::{Error, Result};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The most handshakes at a time.
const MAX_GREETINGS: usize = 64;

/// The hub before and while it runs.
pub(super) struct HostedHub {
    /// Open until every rank has come.
    listener: Option<TcpListener>,
    secret: Secret,
    job: JobId,
    stop: Arc<Event>,
    greetings: Vec<(SocketAddr, Greeting)>,
    hub: Hub,
    /// One an agent, in the order of the hub's nodes.
    links: Vec<Link>,
}

impl HostedHub {
    /// Listens at the address where the others look for rank 0.
    pub(super) fn bind(call: &Call, stop: Arc<Event>) -> Result<HostedHub> {
        let listener = TcpListener::bind(call.master).map_err(|error| {
            Error::Refused(format!(
                "rank 0 cannot listen at KUMIKI_MASTER={}: {error}; it must be a free port of this machine",
                call.master
            ))
        })?;
        listener.set_nonblocking(true).map_err(|error| Error::from_io("fcntl", &error))?;
        let template = template(call)?;
        let plan = Plan {
            ranks: call.ranks,
            nodes: Vec::new(),
            peer_timeout_ms: template.peer_timeout_ms as u64,
            continue_on_loss: template.continue_on_loss,
            template: Some(Box::new(template)),
        };
        Ok(HostedHub {
            listener: Some(listener),
            secret: Secret::from_bytes(call.secret.0),
            job: call.job,
            stop,
            greetings: Vec::new(),
            hub: Hub::new(plan, time::now_ms()),
            links: Vec::new(),
        })
    }

    /// Runs until every agent has ended, or we are told to stop.
    pub(super) fn run(mut self) {
        loop {
            match self.wait() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return eprintln!("kumiki: the hub of the job fails: {error}"),
            }
            self.hub.tick(time::now_ms());
            if self.perform() {
                return;
            }
            if self.hub.is_complete() {
                self.listener = None;
                self.greetings.clear();
            }
        }
    }

    /// Waits for something to happen and takes it in; false when we must stop.
    fn wait(&mut self) -> Result<bool> {
        let mut timeout_ms = self.hub.wake_up_at().saturating_sub(time::now_ms());
        if !self.greetings.is_empty() {
            timeout_ms = timeout_ms.min(100);
        }
        let mut watched = vec![(self.stop.as_fd(), false)];
        watched.extend(self.listener.iter().map(|listener| (listener.as_fd(), false)));
        watched.extend(self.greetings.iter().map(|(_, greeting)| (greeting.as_fd(), false)));
        for link in self.links.iter().filter(|link| !link.is_ended()) {
            watched.push((link.input(), link.backlog_bytes() > 0));
        }
        let ready = descriptor::poll(&watched, timeout_ms.min(60_000) as i32)?;
        if ready[0].readable {
            return Ok(false);
        }
        self.accept();
        self.advance_greetings();
        for node in 0..self.links.len() as u32 {
            self.read(node);
        }
        Ok(true)
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        loop {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // No descriptors are left, perhaps; without a pause we would be woken at once.
                Err(_) => return std::thread::sleep(std::time::Duration::from_millis(10)),
            };
            if self.greetings.len() < MAX_GREETINGS {
                self.greetings.extend(Greeting::accept(stream.into(), self.job).ok().map(|new| (from, new)));
            }
        }
    }

    fn advance_greetings(&mut self) {
        for (from, mut greeting) in std::mem::take(&mut self.greetings) {
            match greeting.advance(&self.secret) {
                Ok(false) => self.greetings.push((from, greeting)),
                Ok(true) => {
                    let Some(greeted) = greeting.finish() else { continue };
                    let _ = socket::tune_tcp(greeted.socket.as_fd(), 15_000);
                    let secret = Secret::from_bytes(*self.secret.expose());
                    let link = Link::sealed(greeted.socket, greeted.connection, secret, greeted.rest);
                    if let Ok(link) = link {
                        let name = format!("the node of rank {} at {}", greeted.peer.rank, from.ip());
                        self.hub.add_node(name, time::now_ms());
                        self.links.push(link);
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn read(&mut self, node: u32) {
        let now_ms = time::now_ms();
        let link = &mut self.links[node as usize];
        if link.is_ended() {
            return;
        }
        link.flush();
        let messages = link.receive().and_then(|messages| {
            messages.iter().map(|message| ToHub::decode(message)).collect::<Result<Vec<_>>>()
        });
        let ended = link.is_ended();
        match messages {
            Ok(messages) => messages.into_iter().for_each(|message| self.hub.receive(node, message, now_ms)),
            Err(error) => self.hub.node_gone(node, &error.to_string(), now_ms),
        }
        if ended {
            self.hub.node_gone(node, "its connection was closed", now_ms);
        }
    }

    /// Does what the hub wants; true when the job is over.
    fn perform(&mut self) -> bool {
        let mut over = false;
        while let Some(effect) = self.hub.next_effect() {
            match effect {
                Effect::Send(node, message) => self.links[node as usize].send(&message.encode()),
                Effect::Report(text) => eprintln!("kumiki: {text}"),
                Effect::Finished(_) => over = true,
            }
        }
        over
    }
}

/// What every agent is told; the hub adds who is where.
fn template(call: &Call) -> Result<Launch> {
    let config = super::bootstrap::environment_config(call.starter_bytes)?;
    Ok(Launch {
        job: call.job.0,
        secret: call.secret,
        node: 0,
        nodes: 0,
        ranks: call.ranks,
        here: Vec::new(),
        machine_ranks: 0,
        machine_before: 0,
        peer_timeout_ms: config.peer_timeout_ms,
        starter_bytes: config.starter_bytes,
        budget_bytes: config.budget_bytes,
        pool_bytes: config.pool_bytes,
        connection_cap: config.connection_cap,
        continue_on_loss: environment::choice("KUMIKI_ON_LOSS", &["abort", "continue"])? == Some("continue"),
        allow_process_vm: config.allow_process_vm != 0,
        listen: Listen::Reached,
        bind_cores: false,
        pipe_output: false,
        remote: true,
        forward_input: false,
        directory: Vec::new(),
        environment: Vec::new(),
        command: Vec::new(),
    })
}
