//! `kumiki relay`: on a gateway, joins blocks whose nodes cannot reach each other.

use super::Outcome;
use kumiki_run::environment::parse_duration;
use kumiki_run::relay;
use std::net::IpAddr;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kumiki relay --listen 10.1.0.1:7200 --listen 192.168.5.1:7200 --secret-file ~/.waitio-secret
                              on the gateway: one address in each network
  WAITIO_RELAY=10.1.0.1:7200 WAITIO_SECRET_FILE=~/.waitio-secret mpirun -n 4 ./ocean
                              a block behind it: what is not in a network of its own machine goes through the relay

It runs until SIGTERM or Ctrl-C. It calls nobody for a caller that does not know the secret, and what it carries is authenticated by the two
ends as always.";

/// Carry connections between blocks of joined programs whose nodes cannot reach each other.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where to listen; once for each network of this machine that has callers.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// File with the secret of the blocks, if it is not in WAITIO_SECRET_FILE or WAITIO_SECRET.
    #[arg(long, value_name = "PATH")]
    secret_file: Option<String>,
    /// A network in which it calls, for instance `10.1.0.0/16`; may be given several times. Otherwise it calls everywhere. This machine itself it calls only at addresses that are given whole (`/32`, `/128`).
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    allow: Vec<(IpAddr, u8)>,
    /// The most connections at a time.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Close a connection over which nothing went for so long, for instance `1h`. Otherwise none is: a machine that is gone is noticed in any case.
    #[arg(long, value_name = "TIME", value_parser = time)]
    idle: Option<Duration>,
    /// Print a line for each connection.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let Arguments { listen, secret_file, allow, connections, idle, verbose } = arguments;
    let connections = connections as usize;
    let options = relay::Options { listen, secret_file, allow, connections, idle, verbose };
    relay::serve(options).map(|()| 0).map_err(|error| format!("relay: {error}"))
}

fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "it should be a time such as 90s, 10m or 1h".into())
}

fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(one, other)| (one, Some(other)));
    let address: Option<IpAddr> = address.parse().ok();
    let most = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let found = address.and_then(|address| match prefix {
        None => Some((address, most(&address))),
        Some(bits) => bits.parse().ok().filter(|&bits| bits <= most(&address)).map(|bits| (address, bits)),
    });
    found.ok_or_else(|| "it should be a network such as 10.1.0.0/16".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        assert_eq!(network("10.1.0.0/16"), Ok(([10, 1, 0, 0].into(), 16)));
        assert_eq!(network("::1"), Ok(("::1".parse().unwrap(), 128)));
        for wrong in ["", "10.1.0.0/33", "10.1/8", "host", "10.1.0.0/"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
        assert!(time("0s").is_err() && time("1h") == Ok(Duration::from_secs(3600)));
    }
}
