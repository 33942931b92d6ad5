//! The metrics: what is asked of each contender, and the bounds that must hold on two cores.

use super::primitives::ROWS_BYTES;

/// Sizes of the bandwidth rows.
const SIZES: [u64; 11] =
    [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const MIB: u64 = 1 << 20;

/// Before the line of a floor that the measured job itself is asked: the same done in another way.
pub(super) const OF_OURS: &str = "ours ";

/// What lies between the ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// Ranks of one node.
    Shm,
    /// Each rank is a node of its own.
    Tcp,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Shm => "shm",
            Place::Tcp => "tcp",
        }
    }
}

/// The jobs that a metric needs: where, and how many ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Session {
    pub(super) place: Place,
    pub(super) ranks: u32,
}

/// How samples come about.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum How {
    /// Long-lived contenders are asked: the lines for Kumiki, for each floor and for the peers.
    Ask { ours: String, floors: Vec<(&'static str, String)>, peers: Option<String> },
    /// A job is started for each sample.
    StartUp,
    /// A job is started once, and its ranks say what joining cost.
    Memory,
    /// The difference between two memory rows.
    MemoryGrowth { from: u32 },
}

/// What a bound compares with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Against {
    /// The floor of the row.
    Floor,
    /// The best peer of the row.
    Peer,
    /// A value, in the unit of the row.
    Value,
}

/// A bound: Kumiki must be within `factor` of what it is compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bound {
    pub(super) against: Against,
    /// The largest ratio allowed (under 1 is better), or the largest value.
    pub(super) limit: f64,
}

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) session: Session,
    pub(super) how: How,
    pub(super) bounds: Vec<Bound>,
}

impl Metric {
    /// Whether more is better.
    pub(super) fn is_rate(&self) -> bool {
        self.unit == "MB/s"
    }

    /// The size, if this is the bandwidth of a put there into the arena.
    pub(super) fn put_bytes(&self, place: &str) -> Option<u64> {
        match &self.how {
            How::Ask { ours, .. } if self.session.place.name() == place => {
                ours.strip_prefix("putbw.arena.")?.parse().ok()
            }
            _ => None,
        }
    }

    fn at_most(mut self, limit: f64, against: Against) -> Metric {
        self.bounds.push(Bound { against, limit });
        self
    }
}

/// The metrics whose name contains one of the words of a pattern.
pub(super) fn select(pattern: Option<&str>, quick: bool) -> Result<Vec<Metric>, String> {
    choose(all(quick), pattern)
}

/// Those of a list whose name contains one of the words of a pattern.
pub(super) fn choose(all: Vec<Metric>, pattern: Option<&str>) -> Result<Vec<Metric>, String> {
    let Some(pattern) = pattern else { return Ok(all) };
    let words: Vec<&str> = pattern.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let chosen: Vec<Metric> =
        all.into_iter().filter(|metric| words.iter().any(|word| metric.name.contains(word))).collect();
    if chosen.is_empty() {
        return Err(format!("--only {pattern}: no metric has that in its name; --list shows them"));
    }
    Ok(chosen)
}

fn all(quick: bool) -> Vec<Metric> {
    let mut list = Vec::new();
    for place in [Place::Shm, Place::Tcp] {
        small(&mut list, place);
        bandwidth(&mut list, place, quick);
        primitives(&mut list, place);
        third_party(&mut list, place);
    }
    random_and_threads(&mut list);
    between_nodes(&mut list);
    for operation in ["put8", "get8", "fadd8"] {
        list.push(busy("busy", operation).at_most(200.0, Against::Value));
        list.push(busy("busy1", operation));
    }
    for ranks in [2, 4, 8, 16] {
        list.push(barrier(Session { place: Place::Shm, ranks }).at_most(1.0, Against::Peer));
    }
    list.push(barrier(Session { place: Place::Tcp, ranks: 2 }));
    for (place, ranks) in [(Place::Shm, 4), (Place::Tcp, 2)] {
        list.push(team(Session { place, ranks }));
    }
    for place in [Place::Shm, Place::Tcp] {
        list.push(idle(place, if quick { 2 } else { 10 }));
    }
    for ranks in [2, 32, 256] {
        let row = launched(format!("startup.{ranks}"), "s", ranks, How::StartUp);
        list.push(if ranks == 256 { row.at_most(0.5, Against::Peer) } else { row });
    }
    let many = if quick { 128 } else { 1024 };
    for ranks in [2, many] {
        let row = launched(format!("memory.{ranks}"), "KiB", ranks, How::Memory);
        list.push(row.at_most(16.0, Against::Value));
    }
    let growth = launched("memory.growth".into(), "KiB", many, How::MemoryGrowth { from: 2 });
    list.push(growth.at_most(16.0, Against::Value));
    // Contenders stay for a session, so the rows of one stand together.
    list.sort_by_key(|metric| (!matches!(metric.how, How::Ask { .. }), metric.session));
    list
}

/// Operations on 8 bytes, by each interface.
fn small(list: &mut Vec<Metric>, place: Place) {
    for operation in ["put8", "get8", "fadd8", "cas8"] {
        for interface in ["typed", "view", "handle", "private"] {
            if interface == "view" && place == Place::Tcp {
                continue;
            }
            let window = if interface == "private" { "create" } else { "alloc" };
            let floors = match (place, operation) {
                (Place::Tcp, _) => vec![("spinning socket", "spin"), ("blocking socket", "block")],
                (Place::Shm, "put8") => vec![("store", "store")],
                (Place::Shm, "get8") => vec![("load", "load")],
                (Place::Shm, "cas8") => vec![("lock cmpxchg", "cmpxchg")],
                (Place::Shm, _) => vec![("lock xadd", "xadd")],
            };
            let row = Metric {
                name: format!("{operation}.{}.{interface}", place.name()),
                unit: "ns",
                session: Session { place, ranks: 2 },
                how: How::Ask {
                    ours: format!("{operation}.{interface}"),
                    floors: floors.into_iter().map(|(name, line)| (name, format!("floor.{line}"))).collect(),
                    peers: Some(format!("{operation}.{window}")),
                },
                bounds: Vec::new(),
            };
            list.push(bounded_small(row, place, operation, interface));
        }
    }
}

fn bounded_small(row: Metric, place: Place, operation: &str, interface: &str) -> Metric {
    match (place, operation, interface) {
        // A store takes a fraction of a nanosecond: what an access may cost beside it is a number.
        (Place::Shm, "put8" | "get8", "typed") => row.at_most(4.0, Against::Value),
        (Place::Shm, "put8" | "get8", "view") => row.at_most(1.5, Against::Value),
        (Place::Shm, "fadd8" | "cas8", "typed") => row.at_most(2.0, Against::Floor),
        (Place::Shm, "fadd8" | "cas8", "view") => row.at_most(1.15, Against::Floor),
        (Place::Shm, "put8", "handle") => row.at_most(8.0, Against::Value).at_most(1.0, Against::Peer),
        (Place::Shm, "get8", "handle") => row.at_most(1.0, Against::Peer),
        (Place::Shm, "put8", "private") => row.at_most(1.0, Against::Peer),
        (Place::Tcp, "put8" | "get8" | "fadd8", "typed") => {
            row.at_most(1.2, Against::Floor).at_most(1.0, Against::Peer)
        }
        _ => row,
    }
}

/// Words of a neighbour in random order, read or changed; and copies by handle of two threads at once, which must get on with
/// each other: a row of the time of one copy, however many threads there are.
fn random_and_threads(list: &mut Vec<Metric>) {
    let session = Session { place: Place::Shm, ranks: 2 };
    for operation in ["randread", "randupd"] {
        for interface in ["typed", "view"] {
            let row = Metric {
                name: format!("{operation}.shm.{interface}"),
                unit: "ns",
                session,
                how: How::Ask {
                    ours: format!("{operation}.{interface}"),
                    floors: vec![("bare words", format!("floor.{operation}"))],
                    peers: None,
                },
                bounds: Vec::new(),
            };
            list.push(if interface == "view" { row.at_most(1.1, Against::Floor) } else { row });
        }
    }
    let how = How::Ask { ours: "put8.threads".into(), floors: Vec::new(), peers: None };
    let row = Metric { name: "put8.shm.threads".into(), unit: "ns", session, how, bounds: Vec::new() };
    list.push(row.at_most(8.0 / 1.5, Against::Value));
}

/// Several copies in flight; over TCP also one at a time.
fn bandwidth(list: &mut Vec<Metric>, place: Place, quick: bool) {
    let sizes = SIZES.into_iter().filter(|&bytes| !quick || bytes % (64 << 10) == 0 || bytes == 64);
    for bytes in sizes {
        for (kind, window) in [("arena", "alloc"), ("private", "create")] {
            for operation in ["putbw", "getbw"] {
                list.push(copies(place, operation, kind, window, bytes));
            }
        }
        if place == Place::Tcp && bytes >= 64 << 10 {
            for operation in ["putone", "getone"] {
                list.push(copies(place, operation, "arena", "alloc", bytes));
            }
        }
    }
}

fn copies(place: Place, operation: &str, kind: &str, window: &str, bytes: u64) -> Metric {
    let in_flight = operation.ends_with("bw");
    let floors = match (place, in_flight) {
        (Place::Shm, _) => vec![("memcpy", format!("floor.memcpy.{bytes}"))],
        (Place::Tcp, true) => vec![
            ("socket stream", format!("floor.stream.{bytes}")),
            ("socket stream, summed", format!("floor.summed.{bytes}")),
        ],
        (Place::Tcp, false) => vec![("socket, one at a time", format!("floor.acked.{bytes}"))],
    };
    let row = Metric {
        name: format!("{operation}.{}.{kind}.{}", place.name(), size_name(bytes)),
        unit: "MB/s",
        session: Session { place, ranks: 2 },
        how: How::Ask {
            ours: format!("{operation}.{kind}.{bytes}"),
            floors,
            peers: Some(format!("{operation}.{window}.{bytes}")),
        },
        bounds: Vec::new(),
    };
    let sizes_bound = [64 << 10, MIB, 4 * MIB].contains(&bytes);
    match (place, kind) {
        (Place::Shm, "arena") if sizes_bound => row.at_most(1.0 / 0.95, Against::Floor),
        (Place::Shm, "private") if bytes == MIB => row.at_most(1.0, Against::Peer),
        (Place::Tcp, "arena") if bytes >= MIB && in_flight => row.at_most(1.0 / 0.9, Against::Floor),
        _ => row,
    }
}

/// Rows beside the same bytes in one piece; a word that each of two ranks waits for in turn.
fn primitives(list: &mut Vec<Metric>, place: Place) {
    let row = |name: String, unit, ours: String| Metric {
        name,
        unit,
        session: Session { place, ranks: 2 },
        how: How::Ask { ours, floors: Vec::new(), peers: None },
        bounds: Vec::new(),
    };
    for operation in ["putrows", "getrows"] {
        for bytes in [512, 4096] {
            let name = format!("{operation}.{}.{}", place.name(), size_name(bytes));
            let mut metric = row(name, "MB/s", format!("{operation}.{bytes}"));
            if let How::Ask { floors, .. } = &mut metric.how {
                floors.push(("in one piece", format!("{OF_OURS}{operation}.{ROWS_BYTES}")));
            }
            list.push(metric.at_most(1.0 / 0.8, Against::Floor));
        }
    }
    for way in ["put", "signal"] {
        list.push(row(format!("word.{}.{way}", place.name()), "ns", format!("word.{way}")));
    }
}

/// Rank 0 copies from rank 1 to rank 2.
fn third_party(list: &mut Vec<Metric>, place: Place) {
    for kind in ["arena", "private"] {
        let floors = match place {
            Place::Shm => vec![("lock xadd", "floor.xadd".to_string())],
            Place::Tcp => vec![("spinning socket", "floor.spin".to_string())],
        };
        list.push(Metric {
            name: format!("third8.{}.{kind}", place.name()),
            unit: "ns",
            session: Session { place, ranks: 3 },
            how: How::Ask { ours: format!("third8.{kind}"), floors, peers: None },
            bounds: Vec::new(),
        });
    }
}

/// Puts with thousands in flight, and gets of two ranks that ask each other.
fn between_nodes(list: &mut Vec<Metric>) {
    let row = |name: &str, ours: &str, floors| Metric {
        name: name.into(),
        unit: "ns",
        session: Session { place: Place::Tcp, ranks: 2 },
        how: How::Ask { ours: ours.into(), floors, peers: None },
        bounds: Vec::new(),
    };
    list.push(row("put8.tcp.many", "many.put8", Vec::new()).at_most(700.0, Against::Value));
    let spinning = vec![("spinning socket", "floor.spin".to_string())];
    list.push(row("get8.tcp.both", "both.get8", spinning));
}

/// An operation on a rank that computes, while the initiator's core computes too (`busy`) or only waits (`busy1`).
fn busy(name: &str, operation: &str) -> Metric {
    Metric {
        name: format!("{name}.{operation}.tcp"),
        unit: "us",
        session: Session { place: Place::Tcp, ranks: 2 },
        how: How::Ask {
            ours: format!("{name}.{operation}"),
            floors: Vec::new(),
            peers: Some(format!("busy.{operation}.alloc")),
        },
        bounds: Vec::new(),
    }
}

fn barrier(session: Session) -> Metric {
    Metric {
        name: format!("barrier.{}.{}", session.place.name(), session.ranks),
        unit: "us",
        session,
        how: How::Ask { ours: "barrier".into(), floors: Vec::new(), peers: Some("barrier".into()) },
        bounds: Vec::new(),
    }
}

/// The barrier of a team of all ranks.
fn team(session: Session) -> Metric {
    Metric {
        name: format!("team.{}.{}", session.place.name(), session.ranks),
        how: How::Ask { ours: "team".into(), floors: Vec::new(), peers: None },
        ..barrier(session)
    }
}

/// The processor time of a rank that waits in a barrier.
fn idle(place: Place, seconds: u32) -> Metric {
    Metric {
        name: format!("idle.{}", place.name()),
        unit: "%",
        session: Session { place, ranks: 2 },
        how: How::Ask { ours: format!("idle.{seconds}"), floors: Vec::new(), peers: None },
        bounds: vec![Bound { against: Against::Value, limit: 2.0 }],
    }
}

fn launched(name: String, unit: &'static str, ranks: u32, how: How) -> Metric {
    Metric { name, unit, session: Session { place: Place::Shm, ranks }, how, bounds: Vec::new() }
}

fn size_name(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{}K", bytes >> 10),
        _ => format!("{}M", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_sessions_stand_together() {
        for quick in [false, true] {
            let all = all(quick);
            let mut names: Vec<&str> = all.iter().map(|metric| metric.name.as_str()).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
            let mut sessions: Vec<Session> =
                all.iter().filter(|m| matches!(m.how, How::Ask { .. })).map(|m| m.session).collect();
            sessions.dedup();
            let mut sorted = sessions.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sessions, sorted);
        }
    }

    #[test]
    fn a_pattern_selects_by_name_and_a_wrong_one_is_answered() {
        let chosen = select(Some("put8.shm,barrier.shm.2"), true).unwrap();
        let names: Vec<&str> = chosen.iter().map(|metric| metric.name.as_str()).collect();
        let of_put = ["typed", "view", "handle", "private", "threads"].map(|name| format!("put8.shm.{name}"));
        assert_eq!(names[..5], of_put);
        assert_eq!(names[5..], ["barrier.shm.2"]);
        assert!(select(Some("putt"), true).unwrap_err().contains("--list"));
    }
}
