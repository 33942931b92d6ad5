//! The metrics of the data structures, and the bounds that must hold on two cores.

use super::super::catalogue::{Against, Bound, How, Metric, Place, Session};

/// A row: its name, its session, and the lines for each side.
fn row(
    name: &str,
    place: Place,
    ours: &str,
    floors: &[(&'static str, &str)],
    peers: Option<&str>,
    bounds: &[(f64, Against)],
) -> Metric {
    Metric {
        name: name.to_string(),
        unit: if name.ends_with("bytes") { "B" } else { "ns" },
        session: Session { place, ranks: 2 },
        how: How::Ask {
            ours: format!("data.{ours}"),
            floors: floors.iter().map(|(name, line)| (*name, line.to_string())).collect(),
            peers: peers.map(str::to_string),
        },
        bounds: bounds.iter().map(|&(limit, against)| Bound { against, limit }).collect(),
    }
}

pub(super) fn all() -> Vec<Metric> {
    use Against::{Floor, Peer, Value};
    let spin = [("spinning socket", "floor.spin")];
    let own = [("our own rank", "data.malloc.own")];
    vec![
        row("malloc.own", Place::Shm, "malloc.own", &[], Some("std.malloc"), &[(4.0, Peer)]),
        row("malloc.near", Place::Shm, "malloc.other", &own, None, &[(2.0, Floor)]),
        row("vector.push", Place::Shm, "push.own", &[], Some("std.push"), &[(5.0, Peer)]),
        row("map.find.own", Place::Shm, "find.own", &[], Some("std.find"), &[]),
        row("map.insert.own", Place::Shm, "insert.own", &[], Some("std.insert"), &[]),
        row("map.find.near", Place::Shm, "find.all", &[], Some("redis.get"), &[(500.0, Value), (0.05, Peer)]),
        row(
            "map.insert.near",
            Place::Shm,
            "insert.all",
            &[],
            Some("redis.set"),
            &[(1000.0, Value), (0.05, Peer)],
        ),
        row("map.entry_bytes", Place::Shm, "entry_bytes", &[], None, &[(48.0, Value)]),
        row("malloc.tcp", Place::Tcp, "malloc_each.other", &spin, None, &[(1.5, Floor)]),
        row("free.tcp", Place::Tcp, "free_each.other", &spin, None, &[(1.5, Floor)]),
        row("map.find.tcp", Place::Tcp, "find.other", &spin, Some("redis.get"), &[(1.0, Peer)]),
        row("map.insert.tcp", Place::Tcp, "insert.other", &spin, Some("redis.set"), &[(1.0, Peer)]),
        row("map.find_many.tcp", Place::Tcp, "find_many.other", &[], Some("redis.get_many"), &[(1.0, Peer)]),
        row(
            "map.insert_many.tcp",
            Place::Tcp,
            "insert_many.other",
            &[],
            Some("redis.set_many"),
            &[(1.0, Peer)],
        ),
        row("vector.insert_middle.tcp", Place::Tcp, "middle.other", &spin, None, &[]),
    ]
}
