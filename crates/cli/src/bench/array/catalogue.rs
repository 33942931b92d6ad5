//! The metrics of arrays, and the bounds that must hold on two cores.

use super::super::catalogue::{Against, Bound, How, Metric, Place, Session};

/// Loops over arrays: their names, and how many elements, or elements a dimension, each node has.
const SWEEPS: [(&str, u64); 3] = [("triad", 1 << 19), ("laplace", 512), ("stencil", 64)];
/// What communicates, and what it is called in the lines that are asked.
const MOVES: [(&str, &str); 6] = [
    ("reflect.planes", "planes.256"),
    ("reflect.columns", "columns.256"),
    ("gmove.cyclic", "cyclic.2048"),
    ("transpose", "transpose.2048"),
    ("reduction.1", "sum.1"),
    ("reduction.8K", "sum.8192"),
];
/// Whole programs, and their units.
const PROGRAMS: [(&str, &str); 7] = [
    ("himeno.S", "us"),
    ("himeno.M", "us"),
    ("cg.S", "ms"),
    ("cg.W", "ms"),
    ("cg.A", "ms"),
    ("ep.S", "ms"),
    ("ep.W", "ms"),
];

/// All metrics, of arrays in Rust or of translated C.
pub(super) fn all(translated: bool) -> Vec<Metric> {
    let mut list = Vec::new();
    let pair = Session { place: Place::Shm, ranks: 2 };
    for (name, size) in SWEEPS {
        let ours = format!("array.{name}.{size}");
        // Rust is compared with Rust, and C with C.
        let (how, against) = if translated {
            let plain = format!("serial.{name}.{size}");
            (How::Ask { ours, floors: Vec::new(), peers: Some(plain) }, Against::Peer)
        } else {
            let floors = vec![("plain loop", format!("array.plain.{name}.{size}"))];
            let peers = Some(ours.clone());
            (How::Ask { ours, floors, peers }, Against::Floor)
        };
        list.push(row(format!("loop.{name}"), "ns", pair, how, 1.05, against));
    }
    let ask = |name: &str| {
        let line = format!("array.{name}");
        How::Ask { ours: line.clone(), floors: Vec::new(), peers: Some(line) }
    };
    for place in [Place::Shm, Place::Tcp] {
        let session = Session { place, ranks: 2 };
        for (name, line) in MOVES {
            let name = format!("{name}.{}", place.name());
            list.push(row(name, "us", session, ask(line), 1.0, Against::Peer));
        }
    }
    for ranks in [1, 2, 4] {
        for (name, unit) in PROGRAMS {
            let session = Session { place: Place::Shm, ranks };
            let how = ask(name);
            list.push(row(format!("{name}.{ranks}"), unit, session, how, 1.0 / 0.95, Against::Peer));
        }
    }
    // Sessions that come again are one.
    list.sort_by_key(|metric| metric.session);
    list
}

fn row(name: String, unit: &'static str, session: Session, how: How, limit: f64, against: Against) -> Metric {
    Metric { name, unit, session, how, bounds: vec![Bound { against, limit }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_bound_and_a_session_comes_once() {
        for translated in [false, true] {
            let all = all(translated);
            assert!(all.iter().all(|metric| metric.bounds.len() == 1));
            let mut sessions: Vec<Session> = all.iter().map(|metric| metric.session).collect();
            sessions.dedup();
            assert_eq!(sessions.len(), 4);
        }
    }
}
