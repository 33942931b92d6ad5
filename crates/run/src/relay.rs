//! Being a relay: on a gateway, for programs that join and whose nodes cannot reach each other.

use crate::{Result, RunError};
use kumiki_net::agent::{blocks, report};
use kumiki_net::os::process::Signals;
use kumiki_net::os::socket;
use kumiki_net::route::relay::{Relay, Settings};
use kumiki_net::route::words;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen: `host:port`, each.
    pub listen: Vec<String>,
    /// The file of the secret, if it is not what the environment says.
    pub secret_file: Option<String>,
    /// The networks in which it calls; none: everywhere but on its own machine.
    pub allow: Vec<(IpAddr, u8)>,
    /// The most connections at a time.
    pub connections: usize,
    /// A connection over which nothing went for so long is closed.
    pub idle: Option<Duration>,
    /// Whether each connection is told.
    pub verbose: bool,
}

/// Carries bytes until SIGTERM, SIGINT or SIGHUP.
pub fn serve(options: Options) -> Result<()> {
    let signals = Signals::new(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
    if options.listen.is_empty() {
        let own = socket::interface_addresses()?.into_iter().filter(|address| !address.is_loopback());
        let own: Vec<String> = own.map(|address| address.to_string()).collect();
        return Err(RunError::Options(format!(
            "say where to listen: --listen HOST:PORT, once for each network; this machine has {}",
            if own.is_empty() { "no address but its own".into() } else { own.join(", ") }
        )));
    }
    let secret = blocks::secret(options.secret_file)?.ok_or_else(|| {
        RunError::Options(
            "a relay needs the secret of the blocks: --secret-file PATH, or WAITIO_SECRET_FILE, or WAITIO_SECRET".into(),
        )
    })?;
    blocks::check_secret(&secret)?;
    let settings = Settings {
        listen: options.listen,
        key: words::key(&secret),
        allowed: options.allow,
        connections: options.connections,
        idle: options.idle,
        is_verbose: options.verbose,
    };
    let mut say = |text: &str| report::print(text);
    let done = Relay::new(settings, &mut say)?.run(signals.as_fd())?;
    // What was not fetched would come after all, as soon as nobody collects it.
    while signals.next().is_some() {}
    report::print(&format!(
        "relay: ends; {} connections made, {} bytes carried, {} calls came to nothing, {} callers refused",
        done.made, done.bytes, done.failed, done.refused
    ));
    Ok(())
}
