//! The metrics of programs that join, and the bounds that must hold on two cores.

use super::super::catalogue::{Against, Bound, How, Metric, Place, Session};
use super::super::comm::FLAT;

/// Bytes of messages whose bandwidth is measured.
const LONG: [(u64, &str); 4] = [(64 << 10, "64K"), (1 << 20, "1M"), (16 << 20, "16M"), (64 << 20, "64M")];
/// Processes of the two programs that do collectives.
const MANY: u32 = 16;

pub(super) fn all() -> Vec<Metric> {
    let mut list = Vec::new();
    for place in [Place::Shm, Place::Tcp] {
        messages(&mut list, place);
    }
    for place in [Place::Shm, Place::Tcp] {
        collectives(&mut list, place);
    }
    // Sessions that come again are one.
    list.sort_by_key(|metric| metric.session);
    list
}

/// Between two programs of one process each.
fn messages(list: &mut Vec<Metric>, place: Place) {
    let mut add = |name: String, unit, ask: String, floors: [(&'static str, String); 2], limit: f64| {
        // On a node what MPI does inside one job is the measure, between nodes a bare socket.
        let (floors, against) = match place {
            Place::Shm => (Vec::new(), Against::Peer),
            Place::Tcp => (floors.into(), Against::Floor),
        };
        list.push(Metric {
            name,
            unit,
            session: Session { place, ranks: 2 },
            how: How::Ask { ours: format!("comm.join.{ask}"), floors, peers: Some(format!("comm.{ask}")) },
            bounds: vec![Bound { against, limit: if place == Place::Shm { 1.0 } else { limit } }],
        });
    };
    let sockets =
        [("spinning socket", "floor.half.spin".into()), ("blocking socket", "floor.half.block".into())];
    add(format!("join8.{}", place.name()), "ns", "pingpong.8".into(), sockets, 1.2);
    for (bytes, size) in LONG {
        let streams = [
            ("socket stream, summed", format!("floor.summed.messages.{bytes}")),
            ("socket stream", format!("floor.stream.{bytes}")),
        ];
        add(format!("joinbw.{}.{size}", place.name()), "MB/s", format!("bw.{bytes}"), streams, 1.0 / 0.9);
    }
}

/// Of all processes of two programs, with 8 bytes.
fn collectives(list: &mut Vec<Metric>, place: Place) {
    for name in ["bcast", "allreduce"] {
        list.push(Metric {
            name: format!("{name}8.{}.2x{}", place.name(), MANY / 2),
            unit: "us",
            session: Session { place, ranks: MANY },
            how: How::Ask {
                ours: format!("comm.join.{name}.8"),
                floors: Vec::new(),
                peers: Some(format!("{FLAT}{name}.8")),
            },
            bounds: vec![Bound { against: Against::Peer, limit: 0.5 }],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_bound_and_a_session_comes_once() {
        let all = all();
        assert!(all.iter().all(|metric| metric.bounds.len() == 1));
        let mut sessions: Vec<Session> = all.iter().map(|metric| metric.session).collect();
        sessions.dedup();
        assert_eq!(sessions.len(), 4);
    }
}
