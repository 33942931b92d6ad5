//! The metrics of patterns, and the bounds that must hold on two cores.

use super::super::catalogue::{Against, Bound, How, Metric, Place, Session};

/// Bytes of messages whose bandwidth is measured.
const LONG: [(u64, &str); 3] = [(64 << 10, "64K"), (1 << 20, "1M"), (16 << 20, "16M")];
/// Words of the tables of batches.
const TABLES: [(u64, &str); 2] = [(1 << 20, "1M"), (1 << 24, "16M")];

/// A row: its name, unit and session, what is asked of us, the floor and the peers, and the bounds.
fn row(
    name: String,
    unit: &'static str,
    session: Session,
    ask: &str,
    floor: Option<(&'static str, String)>,
    bounds: &[(f64, Against)],
) -> Metric {
    let how = How::Ask {
        ours: format!("comm.{ask}"),
        floors: floor.into_iter().collect(),
        // What MPI has for it; channels and messages are its send and receive.
        peers: Some(format!(
            "comm.{}",
            ["channel.", "message."].iter().find_map(|way| ask.strip_prefix(way)).unwrap_or(ask)
        )),
    };
    let bounds = bounds.iter().map(|&(limit, against)| Bound { against, limit }).collect();
    Metric { name, unit, session, how, bounds }
}

pub(super) fn all() -> Vec<Metric> {
    let mut list = Vec::new();
    for place in [Place::Shm, Place::Tcp] {
        let session = Session { place, ranks: 2 };
        sends(&mut list, session, "channel");
        sends(&mut list, session, "message");
        halos(&mut list, session);
        batches(&mut list, session);
    }
    for place in [Place::Shm, Place::Tcp] {
        batches(&mut list, Session { place, ranks: 4 });
    }
    for (place, ranks) in [
        (Place::Shm, 2),
        (Place::Shm, 4),
        (Place::Shm, 8),
        (Place::Shm, 16),
        (Place::Tcp, 2),
        (Place::Tcp, 4),
    ] {
        collectives(&mut list, Session { place, ranks });
    }
    sparse(&mut list, Session { place: Place::Shm, ranks: 8 }, 0.7);
    sparse(&mut list, Session { place: Place::Tcp, ranks: 4 }, 1.0);
    // Sessions that come again are one.
    list.sort_by_key(|metric| metric.session);
    list
}

fn collectives(list: &mut Vec<Metric>, session: Session) {
    let (place, ranks) = (session.place.name(), session.ranks);
    let mut add = |name: String, ask: String, peers: String| {
        let how = How::Ask { ours: format!("comm.{ask}"), floors: Vec::new(), peers: Some(peers) };
        let bounds = vec![Bound { against: Against::Peer, limit: 1.0 }];
        list.push(Metric { name, unit: "us", session, how, bounds });
    };
    add(format!("barrier.{place}.{ranks}"), "barrier".into(), "barrier".into());
    for pattern in ["bcast", "allreduce", "allgather", "alltoall"] {
        for (bytes, size) in [(8, "8"), (64 << 10, "64K"), (4 << 20, "4M")] {
            // Of the last two it is what a rank has in the end.
            let shared = matches!(pattern, "allgather" | "alltoall");
            let each = if shared { (bytes / u64::from(ranks)).max(8) } else { bytes };
            let ask = format!("{pattern}.{each}");
            add(format!("{pattern}.{place}.{ranks}.{size}"), ask.clone(), format!("comm.{ask}"));
        }
    }
}

/// Particles of 48 bytes, 20 and 200 to each of three ranks.
fn sparse(list: &mut Vec<Metric>, session: Session, limit: f64) {
    let (place, ranks) = (session.place.name(), session.ranks);
    for particles in [20, 200] {
        let (name, ask) =
            (format!("sparse.{place}.{ranks}.{particles}"), format!("sparse.{}", 48 * particles));
        list.push(row(name, "us", session, &ask, None, &[(limit, Against::Peer)]));
    }
}

fn sends(list: &mut Vec<Metric>, session: Session, way: &str) {
    use Against::Peer;
    let place = session.place.name();
    let mut add = |name: String, unit, ask: String, bound| {
        list.push(row(name, unit, session, &ask, None, &[(bound, Peer)]));
    };
    add(format!("{way}8.{place}"), "ns", format!("{way}.pingpong.8"), 1.0);
    add(format!("{way}rate8.{place}"), "ns", format!("{way}.rate.8"), 1.0);
    for (bytes, name) in LONG {
        add(format!("{way}bw.{place}.{name}"), "MB/s", format!("{way}.bw.{bytes}"), 1.0);
    }
}

/// A cube of 256 doubles each way, cut where faces lie together and where they do not; and how well its exchange hides behind computation.
fn halos(list: &mut Vec<Metric>, session: Session) {
    let place = session.place.name();
    for cut in ["planes", "columns"] {
        let (name, ask) = (format!("halo.{place}.{cut}"), format!("{cut}.256"));
        list.push(row(name, "us", session, &ask, None, &[(0.9, Against::Peer)]));
    }
    let how = How::Ask { ours: "comm.overlap.256".into(), floors: Vec::new(), peers: None };
    let bounds = vec![Bound { against: Against::Value, limit: 1.1 }];
    list.push(Metric { name: format!("halo.{place}.overlap"), unit: "x", session, how, bounds });
}

fn batches(list: &mut Vec<Metric>, session: Session) {
    use Against::{Floor, Peer};
    let (place, ranks) = (session.place.name(), session.ranks);
    for (words, size) in TABLES {
        for (pattern, bare) in [("histogram", "update"), ("gather", "read")] {
            let name = format!("{pattern}.{place}.{ranks}.{size}");
            let (floor, limit) = match session.place {
                Place::Shm => (("bare words", format!("floor.{bare}.{words}")), 1.1),
                Place::Tcp => (("64 a write", "floor.sixtyfour".to_string()), 2.0),
            };
            // Floors have two processes: with more ranks than that each has less of the machine.
            let floor = (ranks == 2).then_some(floor);
            let mut bounds = vec![(1.0, Peer)];
            bounds.extend(floor.is_some().then_some((limit, Floor)));
            let ask = format!("{pattern}.{words}");
            list.push(row(name, "ns", session, &ask, floor, &bounds));
        }
    }
}
